package cli

import (
	"encoding/json"
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
	"poold/internal/targets"
)

// Console is the environment and the output of a command.
type Console struct {
	Lookup func(string) (string, bool) // reads an environment variable
	Stdout io.Writer
	Stderr io.Writer
}

// Env returns the value of an environment variable. If the variable is unset or empty, Env returns
// the fallback.
func (c *Console) Env(name, fallback string) string {
	if value, ok := c.Lookup(name); ok && value != "" {
		return value
	}
	return fallback
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

// printRaw prints a text to stdout unchanged. If stdout is a terminal, printRaw replaces control
// characters.
func (c *Console) printRaw(text string) error {
	if TerminalOf(c.Stdout) != nil {
		text = PrintableLines(text)
	}
	_, err := io.WriteString(c.Stdout, text)
	return err
}

// printAlone prints a text, such as a token, with exactly one line end.
func (c *Console) printAlone(text []byte) error {
	return c.printRaw(strings.TrimSpace(string(text)) + "\n")
}

func (c *Console) printJSON(document any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	return c.printAlone(text)
}

// printDone prints the JSON document of a change that was made. If there is no document, the
// argument err is the reason.
func (c *Console) printDone(text []byte, err error) error {
	if err != nil {
		return fmt.Errorf("the change is made, but cannot be shown: %w", err)
	}
	return c.printAlone(text)
}

// PrintableLines replaces the control characters in a text of any length, except line ends and
// tabs.
func PrintableLines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return printable(r)
	}, text)
}

// printable replaces an unprintable character, because such a character could move the cursor or
// change colours.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return '\uFFFD'
	}
	return r
}

// Printable prepares an untrusted text for one line of a terminal. Printable replaces control
// characters and cuts the text after 300 characters.
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

// escapeWord escapes the control characters in an untrusted word. For an empty word the result is
// "-".
func escapeWord(word string) string {
	if word == "" {
		return "-"
	}
	quoted := strconv.Quote(word)
	return quoted[1 : len(quoted)-1]
}

// Amount formats an amount of money with two decimals. Amounts below 0.1 get two significant
// digits.
func Amount(x float64) string {
	digits := 2.0
	if x > 0 {
		digits = max(digits, 1-math.Floor(math.Log10(x)))
	}
	return fmt.Sprintf("%.*f", int(digits), x)
}

// price formats a price. The result is the amount with the currency, "-" for the amount 0, or
// "unknown".
func price(currency targets.Currency, of status.Money) string {
	switch {
	case !of.Known():
		return of.String()
	case of == 0:
		return "-"
	}
	return Printable(currency.With(fmt.Sprintf("%.6g", float64(of))))
}

func tokens(n int) string {
	if n == 1 {
		return "1 token"
	}
	return fmt.Sprintf("%d tokens", n)
}

func moment(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// formatKnown formats a known value. For an unknown value the result is "-".
func formatKnown(isKnown bool, format string, value float64) string {
	if !isKnown {
		return "-"
	}
	return fmt.Sprintf(format, value)
}
