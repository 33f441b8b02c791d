package cli

import (
	"fmt"
	"strings"

	"golang.org/x/text/width"
)

// table is rows of left-aligned cells.
type table struct {
	rows   [][]string
	indent string // in front of each row
	// paint colours a cell below the first row; nil = none. padded is the cell with the
	// spaces behind it.
	paint func(column int, cell, padded string) string
}

// row adds a row. Text of foreign origin must be made printable before.
func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// plainRow adds a row of values of any type; see plain.
func (t *table) plainRow(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = plain(fmt.Sprint(cell))
	}
	t.row(row...)
}

// text formats the table. No line is wider than columns: the first column is cut to at
// least 12, then the ends of the lines. 0 columns mean no limit.
func (t *table) text(columns int) string {
	const gap, least = 2, 12
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columnsOf(cell))
		}
	}
	total := gap * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	if columns == 0 {
		columns = total
	}
	if total > columns {
		widths[0] = max(min(least, widths[0]), widths[0]-(total-columns))
	}
	var text strings.Builder
	for n, row := range t.rows {
		text.WriteString(t.indent)
		room := columns
		for i, cell := range row {
			cell = cut(cell, min(widths[i], room))
			padded := cell
			if i < len(row)-1 {
				padded += strings.Repeat(" ", max(0, min(widths[i]+gap, room)-columnsOf(cell)))
			}
			room -= columnsOf(padded)
			if n > 0 && t.paint != nil {
				padded = t.paint(i, cell, padded)
			}
			text.WriteString(padded)
		}
		text.WriteString("\n")
	}
	return text.String()
}

// columnsOf returns how many columns of a terminal a text takes at most. It counts
// combining characters too.
func columnsOf(text string) (n int) {
	for _, r := range text {
		n += columnsOfRune(r)
	}
	return n
}

func columnsOfRune(r rune) int {
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// cut shortens a text to a number of columns. An ellipsis in the last one shows that.
func cut(text string, columns int) string {
	if columnsOf(text) <= columns {
		return text
	}
	if columns < 1 {
		return ""
	}
	left, kept := columns-1, strings.Builder{}
	for _, r := range text {
		if left -= columnsOfRune(r); left < 0 {
			break
		}
		kept.WriteRune(r)
	}
	return kept.String() + "…"
}

// wrapped breaks a text into lines of at most this many columns, between words if
// possible. The lines after the first are indented.
func wrapped(text string, columns int) string {
	const indent = "  "
	var lines strings.Builder
	used := 0 // columns of the last line
	for _, word := range strings.Fields(text) {
		for word != "" {
			room := columns
			if used > 0 {
				room -= len(indent)
			}
			part := head(word, room)
			word = word[len(part):]
			switch takes := columnsOf(part); {
			case used == 0:
				lines.WriteString(part)
				used = takes
			case used+len(" ")+takes <= columns:
				lines.WriteString(" " + part)
				used += len(" ") + takes
			default:
				lines.WriteString("\n" + indent + part)
				used = len(indent) + takes
			}
		}
	}
	return lines.String()
}

// head returns the beginning of a text that takes at most this many columns, and at least
// one character.
func head(text string, columns int) string {
	for at, r := range text {
		if columns -= columnsOfRune(r); columns < 0 && at > 0 {
			return text[:at]
		}
	}
	return text
}
