package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// mostColumns is how wide tables and their remarks are at most.
const mostColumns = 100

// terminalOf is the terminal that a writer is, nil for anything else.
func TerminalOf(w io.Writer) *os.File {
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return file
	}
	return nil
}

// printRaw prints what the daemon answered as it came; a terminal gets it without what it
// would obey.
func (c *Console) printRaw(text string) error {
	if TerminalOf(c.Stdout) != nil {
		text = PrintableLines(text)
	}
	_, err := io.WriteString(c.Stdout, text)
	return err
}

// printableLines is a text of any length, with its lines, without what a terminal would obey.
func PrintableLines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return harmless(r)
	}, text)
}

// printAlone prints a token, or an answer, in a line of its own.
func (c *Console) printAlone(text []byte) error {
	return c.printRaw(strings.TrimSpace(string(text)) + "\n")
}

// printDone prints the JSON that shows a change which is made, or why it cannot.
func (c *Console) printDone(text []byte, err error) error {
	if err != nil {
		return fmt.Errorf("it is done, but cannot be shown: %w", err)
	}
	return c.printAlone(text)
}

// harmless replaces a letter that moves the cursor, changes colours, or is not seen.
func harmless(r rune) rune {
	if !unicode.IsPrint(r) {
		return '\uFFFD'
	}
	return r
}

// printable is a text that came from elsewhere, for a terminal: short, and with nothing
// that moves the cursor or changes colours.
func Printable(text string) string {
	const most = 300
	var clean strings.Builder
	letters := 0
	for _, r := range text {
		if letters == most {
			return clean.String() + "…"
		}
		clean.WriteRune(harmless(r))
		letters++
	}
	return clean.String()
}

// plain shows a word that a provider chose without what a terminal would obey;
// a dash for none.
func plain(word string) string {
	if word == "" {
		return "-"
	}
	quoted := strconv.Quote(word)
	return quoted[1 : len(quoted)-1]
}

// columnsOf is how many columns of a terminal a text takes at most: marks that stand above
// other letters are counted too.
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

// cut shortens a text to so many columns; the last of them then shows that there was more.
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

// wrapped breaks a text into lines of so many columns, between words where it can. The
// lines after the first are indented.
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

// head is the begin of a text that takes so many columns at most, and is never empty.
func head(text string, columns int) string {
	for at, r := range text {
		if columns -= columnsOfRune(r); columns < 0 && at > 0 {
			return text[:at]
		}
	}
	return text
}

// table is rows of cells, the first of which may be cut so that all fit.
type table struct {
	rows [][]string
	// paint colours a cell that is not in the first row; nil = none. It gets the cell with
	// the spaces that fill it up.
	paint func(column int, cell, padded string) string
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

// write writes the rows, no line wider than so many columns.
func (t *table) write(text *strings.Builder, columns int) {
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
	if total > columns {
		widths[0] = max(min(least, widths[0]), widths[0]-(total-columns))
	}
	for n, row := range t.rows {
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
}
