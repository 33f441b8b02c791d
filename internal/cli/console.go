package cli

import (
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/term"

	"poold/internal/status"
)

// Console is the environment and the output of a command.
type Console struct {
	Lookup func(string) (string, bool) // reads an environment variable
	Stdout io.Writer
	Stderr io.Writer
}

// Env returns the variable's value, or otherwise if it is unset or empty.
func (c *Console) Env(name, otherwise string) string {
	if value, ok := c.Lookup(name); ok && value != "" {
		return value
	}
	return otherwise
}

// UsageError is a mistake on the command line.
type UsageError string

// Error returns the text of the mistake.
func (e UsageError) Error() string { return string(e) }

// TerminalOf returns the terminal that w writes to, or nil if w is something else.
func TerminalOf(w io.Writer) *os.File {
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return file
	}
	return nil
}

// printRaw prints an answer unchanged. On a terminal it replaces control characters.
func (c *Console) printRaw(text string) error {
	if TerminalOf(c.Stdout) != nil {
		text = PrintableLines(text)
	}
	_, err := io.WriteString(c.Stdout, text)
	return err
}

// printAlone prints an answer, such as a token, with exactly one line end.
func (c *Console) printAlone(text []byte) error {
	return c.printRaw(strings.TrimSpace(string(text)) + "\n")
}

// printDone prints the JSON that shows a change. err is why there is no JSON; the change was made
// anyway.
func (c *Console) printDone(text []byte, err error) error {
	if err != nil {
		return fmt.Errorf("the change is made, but cannot be shown: %w", err)
	}
	return c.printAlone(text)
}

// PrintableLines returns a text of any length in which control characters, other than line
// ends and tabs, are replaced.
func PrintableLines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return printable(r)
	}, text)
}

// printable replaces a character that moves the cursor, changes colours or is invisible.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return '\uFFFD'
	}
	return r
}

// Printable returns a text of foreign origin for one line of a terminal: at most 300
// characters, control characters replaced.
func Printable(text string) string {
	const most = 300
	letters := 0
	for at := range text {
		if letters == most {
			return strings.Map(printable, text[:at]) + "…"
		}
		letters++
	}
	return strings.Map(printable, text)
}

// plain returns a word of foreign origin with control characters escaped, or "-" if it is
// empty.
func plain(word string) string {
	if word == "" {
		return "-"
	}
	quoted := strconv.Quote(word)
	return quoted[1 : len(quoted)-1]
}

// Amount formats money: two digits after the point, below a tenth two significant digits.
func Amount(x float64) string {
	digits := 2.0
	if x > 0 {
		digits = max(digits, 1-math.Floor(math.Log10(x)))
	}
	return fmt.Sprintf("%.*f", int(digits), x)
}

func seconds(ms int64) string { return fmt.Sprintf("%.1f", float64(ms)/1000) }

// price formats an amount: a number, "-" for 0, or "unknown".
func price(of status.Money) string {
	if !of.Known() {
		return of.String()
	}
	return known(of > 0, "%.6g", float64(of))
}

// tokens formats a number of tokens.
func tokens(n int) string {
	if n == 1 {
		return "1 token"
	}
	return fmt.Sprintf("%d tokens", n)
}

func moment(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// known formats a figure if it is known, else returns "-".
func known(is bool, format string, value float64) string {
	if !is {
		return "-"
	}
	return fmt.Sprintf(format, value)
}
