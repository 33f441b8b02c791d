package cli

import (
	"strings"

	"golang.org/x/term"

	"poold/internal/provider"
	"poold/internal/refill"
	"poold/internal/status"
)

// screen describes the terminal to which the status is printed.
type screen struct {
	columns int
	lines   int  // height of the terminal; 0 = stdout is not a terminal
	colours bool // whether states are coloured
}

// mostColumns is the maximum width of a line of the status.
const mostColumns = 100

// screen examines stdout. If stdout is not a terminal, the lines have at most mostColumns columns
// and no colours.
func (c *Console) screen() screen {
	s := screen{columns: mostColumns}
	file := TerminalOf(c.Stdout)
	if file == nil {
		return s
	}
	s.colours = c.Env("NO_COLOR", "") == ""
	if columns, lines, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
		s.columns, s.lines = min(columns, mostColumns), lines
	}
	return s
}

// paintState returns the function that colours the states in one column of a table. The function is
// nil if the screen shows no colours.
func (s screen) paintState(column int) func(int, string, string) string {
	if !s.colours {
		return nil
	}
	const red, green, yellow, grey = "31", "32", "33", "90"
	colours := map[string]string{
		refill.Refused: red, refill.Starved: red, refill.Budget: yellow, refill.Paused: yellow,
		refill.OK: green, status.StateIdle: grey, string(provider.StateBusy): yellow,
	}
	return func(i int, cell, padded string) string {
		colour, known := colours[cell]
		if i != column || !known {
			return padded
		}
		return "\x1b[" + colour + "m" + cell + "\x1b[0m" + strings.TrimPrefix(padded, cell)
	}
}
