package redisstore

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"poold/internal/history"
)

// figuresOf returns the name and the value of each figure that is not zero, as arguments of a script.
// It repeats the figures for each owner. An owner is a list of texts that are put before the names.
func figuresOf(counts []history.Count, owners ...[]string) (args []any) {
	for _, names := range owners {
		for _, c := range counts {
			if *c.N != 0 {
				args = append(args, escape(append(names, c.Name)), *c.N)
			}
		}
	}
	return args
}

// add adds n to the figure with this name.
func add(counts []history.Count, name string, n int64) {
	for _, c := range counts {
		if c.Name == name {
			*c.N += n
		}
	}
}

// encodeRecord returns a record as text, without its ID and the time of its end.
func encodeRecord(r history.Record) string { return encode(r.Columns()[2:]) }

func decodeRecord(l line) (history.Record, error) {
	r := history.Record{ID: l.id, Ended: l.at}
	err := decode(l.text, r.Columns()[2:])
	return r, err
}

// encode returns the columns of a record or of an entry as text. Times are in Unix ms, 0 for the zero time.
func encode(columns []history.Column) string {
	texts := make([]string, len(columns))
	for i, c := range columns {
		switch field := c.Field.(type) {
		case *string:
			texts[i] = *field
		case *time.Time:
			texts[i] = "0"
			if !field.IsZero() {
				texts[i] = strconv.FormatInt(field.UnixMilli(), 10)
			}
		case *bool:
			texts[i] = "0"
			if *field {
				texts[i] = "1"
			}
		case *int:
			texts[i] = strconv.Itoa(*field)
		case *int64:
			texts[i] = strconv.FormatInt(*field, 10)
		}
	}
	return escape(texts)
}

// decode parses a text that encode returned, and sets the columns.
func decode(text string, columns []history.Column) error {
	texts, err := unescape(text)
	if err == nil && len(texts) != len(columns) {
		err = fmt.Errorf("it has %d fields", len(texts))
	}
	for i := 0; i < len(columns) && err == nil; i++ {
		err = parseInto(columns[i].Field, texts[i])
	}
	if err != nil {
		return fmt.Errorf("history: a record or an entry in Redis cannot be read: %w", err)
	}
	return nil
}

func parseInto(field any, text string) (err error) {
	switch field := field.(type) {
	case *string:
		*field = text
	case *time.Time:
		var ms int64
		if ms, err = strconv.ParseInt(text, 10, 64); ms != 0 {
			*field = time.UnixMilli(ms).UTC()
		}
	case *bool:
		*field = text == "1"
	case *int:
		*field, err = strconv.Atoi(text)
	case *int64:
		*field, err = strconv.ParseInt(text, 10, 64)
	}
	return err
}

// escape query-escapes texts and joins them with "|".
func escape(texts []string) string {
	escaped := make([]string, len(texts))
	for i, text := range texts {
		escaped[i] = url.QueryEscape(text)
	}
	return strings.Join(escaped, "|")
}

func unescape(text string) (texts []string, err error) {
	texts = strings.Split(text, "|")
	for i := range texts {
		if texts[i], err = url.QueryUnescape(texts[i]); err != nil {
			return nil, fmt.Errorf("history: a text in Redis is not escaped: %w", err)
		}
	}
	return texts, nil
}
