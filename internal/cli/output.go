package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
)

// IsTerminal reports whether w writes to a terminal.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Print prints a text, with a line end if it has none. On a terminal it replaces control characters.
func (c *Console) Print(text string) error {
	if IsTerminal(c.Stdout) {
		text = PrintableLines(text)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_, err := io.WriteString(c.Stdout, text)
	return err
}

// PrintableLines replaces the control characters in a text, except line ends and tabs.
func PrintableLines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return printable(r)
	}, text)
}

// printable replaces a character that could move the cursor or change colours.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return '\uFFFD'
	}
	return r
}

// Printable prepares an untrusted text for one line of a terminal. It replaces control characters
// and cuts the text after 600 characters.
func Printable(text string) string {
	const most = 600
	letters := []rune(strings.Map(printable, text))
	if len(letters) > most {
		return string(letters[:most]) + "…"
	}
	return string(letters)
}

// Amount formats an amount of money with two decimals. Amounts below 0.1 get two significant
// digits.
func Amount(x float64) string { return decimal(x, 2) }

// decimal formats a number with this many decimals, and with two significant digits if it is small.
func decimal(x, decimals float64) string {
	if x > 0 {
		decimals = max(decimals, 1-math.Floor(math.Log10(x)))
	}
	return fmt.Sprintf("%.*f", int(decimals), x)
}

// align aligns lines, whose cells are separated by tabs, in columns.
func align(lines []string) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = io.WriteString(w, strings.Join(lines, "\n")+"\n")
	_ = w.Flush() // a Builder takes every text
	return text.String()
}

// table returns a table with a row for each object in the list. Columns for which no object has a value other than
// false are left out. "HEADING=NAME" gives a field another heading than its name.
func table(list []any, columns ...string) string {
	lines := make([]string, 1+len(list))
	for _, column := range columns {
		title, name, renamed := strings.Cut(column, "=")
		if !renamed {
			title, name = strings.ToUpper(strings.ReplaceAll(column, "_", " ")), column
		}
		hasIt := func(of any) bool { return text(member(of, name)) != "" && member(of, name) != false }
		if !slices.ContainsFunc(list, hasIt) {
			continue
		}
		lines[0] += title + "\t"
		for i, of := range list {
			lines[1+i] += cell(member(of, name)) + "\t"
		}
	}
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\t")
	}
	return align(lines)
}

// member returns a member of a JSON object; nil = the object has no such member.
func member(of any, name string) any {
	object, _ := of.(map[string]any)
	return object[name]
}

// text formats a value of a JSON object. Long fractions are rounded.
func text(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case json.Number:
		isLong := len(value) > 8 && strings.Contains(value.String(), ".") || strings.Contains(value.String(), "e-")
		if f, err := value.Float64(); err == nil && isLong {
			return decimal(f, 4)
		}
	}
	return Printable(fmt.Sprint(value))
}

func cell(value any) string { return cmp.Or(text(value), "-") }

// decode decodes a JSON value. Numbers keep their text.
func decode[T any](body []byte) (value T, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	return value, d.Decode(&value)
}

// listed returns a format that shows the list in a field of an object as a table.
func listed(field string, columns ...string) format {
	return func(_ string, of map[string]any) string {
		list, _ := of[field].([]any)
		printed := "nothing is recorded\n"
		if len(list) > 0 {
			printed = table(list, columns...)
		}
		isUnpriced := func(line any) bool { n := member(line, "unpriced"); return n != nil && text(n) != "0" }
		if slices.ContainsFunc(list, isUnpriced) {
			printed += "orders that UNPRICED counts have no price: set price_per_1000 of their provider\n"
		}
		if next := text(of["next"]); next != "" {
			printed += "there are more: add --cursor " + next + "\n"
		}
		return printed
	}
}

// summed returns a format that shows the given fields of an object in one line. The line begins with the words in done
// and the subject.
func summed(done string, names ...string) format {
	return func(subject string, of map[string]any) string {
		line := Printable(done)
		if subject != "" {
			line = Printable(subject) + ": " + done
		}
		for _, name := range names {
			if value := text(of[name]); value != "" && value != "[]" {
				line += "; " + strings.ReplaceAll(name, "_", " ") + " " + value
			}
		}
		return line
	}
}

// all is a format that shows all fields of an object.
func all(_ string, of map[string]any) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		lines = append(lines, Printable(name)+"\t"+cell(of[name]))
	}
	return align(lines)
}
