package cli

import (
	"fmt"
	"math"
	"time"

	"poold/internal/status"
)

// Amount formats money: two digits after the point, below a tenth two significant digits.
func Amount(x float64) string {
	digits := 2.0
	if x > 0 {
		digits = max(digits, 1-math.Floor(math.Log10(x)))
	}
	return fmt.Sprintf("%.*f", int(digits), x)
}

func seconds(ms int64) string { return fmt.Sprintf("%.1f", float64(ms)/1000) }

// price writes an amount; "-" if nothing was spent.
func price(of status.Money) string {
	if !of.Known() {
		return of.String()
	}
	return known(of > 0, "%.6g", float64(of))
}

// tokens is a number of them.
func tokens(n int) string {
	if n == 1 {
		return "1 token"
	}
	return fmt.Sprintf("%d tokens", n)
}

// moment is a time for people.
func moment(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// known formats a figure, or a dash where there is none yet.
func known(is bool, format string, value float64) string {
	if !is {
		return "-"
	}
	return fmt.Sprintf(format, value)
}
