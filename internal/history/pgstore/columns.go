package pgstore

import (
	"fmt"
	"strings"
	"time"

	"poold/internal/history"
)

// recordColumns returns the columns of the table captcha_solves: the columns of
// history.Record.Columns, and the status.
func recordColumns(r *history.Record) []history.Column {
	status := string(r.Status())
	return append(r.Columns(), history.Column{Name: "status", Field: &status})
}

func names(columns []history.Column) []string {
	all := make([]string, len(columns))
	for i, c := range columns {
		all[i] = c.Name
	}
	return all
}

// values returns the JSON object of a row. It omits times that are zero, so that their columns
// become null.
func values(columns []history.Column) map[string]any {
	row := make(map[string]any, len(columns))
	for _, c := range columns {
		switch field := c.Field.(type) {
		case *string:
			row[c.Name] = cleanText(c.Name, *field)
		case *time.Time:
			if !field.IsZero() {
				row[c.Name] = *field
			}
		default:
			row[c.Name] = field
		}
	}
	return row
}

// destinations returns the pointers into which a row is scanned.
func destinations(columns []history.Column) []any {
	all := make([]any, len(columns))
	for i, c := range columns {
		all[i] = c.Field
		if at, ok := c.Field.(*time.Time); ok {
			all[i] = (*nullable)(at)
		}
	}
	return all
}

// nullable is a time in UTC that implements sql.Scanner. It scans null as the zero time.
type nullable time.Time

// Scan implements sql.Scanner.
func (n *nullable) Scan(value any) error {
	at, ok := value.(time.Time)
	if !ok && value != nil {
		return fmt.Errorf("%T is not a time", value)
	}
	*n = nullable(at.UTC())
	return nil
}

// cleanText returns a text in the form that the server can store in a column.
func cleanText(column, text string) string {
	switch column {
	case "id", "target", "owner", "type", "sitekey", "key":
		return indexable(text)
	default:
		return storable(text)
	}
}

// mostIndexed limits the bytes of a text in an index, because PostgreSQL limits a row of an index to 2.7 kB.
const mostIndexed = 500

// storable replaces those bytes of a text that the server refuses. Without this, a record with such
// bytes would block all later records.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// indexable makes a text storable and shortens it to at most mostIndexed bytes.
func indexable(text string) string {
	if text = storable(text); len(text) > mostIndexed {
		text = strings.ToValidUTF8(text[:mostIndexed], "")
	}
	return text
}
