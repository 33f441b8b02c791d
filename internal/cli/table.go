package cli

import (
	"fmt"
	"strings"

	"golang.org/x/text/width"
)

type table struct {
	rows   [][]string
	indent string // text before each row
	// paint colours a cell below the first row; nil = no colours. The argument padded is the cell's
	// text followed by padding.
	paint func(column int, cell, padded string) string
}

// row adds a row. The caller must first make untrusted texts printable.
func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// plainRow adds a row of values of any type. plainRow formats each value and escapes control
// characters.
func (t *table) plainRow(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = escapeWord(fmt.Sprint(cell))
	}
	t.row(row...)
}

// text formats the table. The argument columns limits the width of each line; 0 means no limit. If
// the table is too wide, its first column is shortened to not less than 12 characters. Lines that
// are still too long are cut.
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
			cell = shorten(cell, min(widths[i], room))
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

// columnsOf returns the width of a text on a terminal, in columns. The result can be too large,
// because each combining character counts as a column.
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

// shorten limits a text to a number of columns. A shortened text ends with an ellipsis.
func shorten(text string, columns int) string {
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

// wrapLines breaks a text into lines of at most the given number of columns. Lines break between
// words if possible. Lines after the first are indented.
func wrapLines(text string, columns int) string {
	const indent = "  "
	var lines strings.Builder
	used := 0 // number of columns in the last line
	for _, word := range strings.Fields(text) {
		for word != "" {
			room := columns
			if used > 0 {
				room -= len(indent)
			}
			part := fittingPrefix(word, room)
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

// fittingPrefix returns the longest prefix of a text that fits into the given number of columns.
// The prefix has at least one character.
func fittingPrefix(text string, columns int) string {
	for at, r := range text {
		if columns -= columnsOfRune(r); columns < 0 && at > 0 {
			return text[:at]
		}
	}
	return text
}
