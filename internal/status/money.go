package status

import (
	"bytes"
	"math"
	"slices"
	"strconv"

	"poold/internal/captcha"
	"poold/internal/targets"
)

// Money is an amount in the currency of the file's prices. A value below 0 stands for an unknown
// amount, which is null in JSON.
type Money float64

const (
	billionths = 1e9 // the stock counts in billionths of the currency
	spentShown = 1e6 // the document shows millionths
)

// money converts billionths of the currency to an amount, rounded to six decimal places.
func money(n int64) Money {
	return Money(math.Round(float64(n)/(billionths/spentShown)) / spentShown)
}

// UnknownMoney returns an unknown amount.
func UnknownMoney() Money { return -1 }

// Known reports whether the amount is known.
func (m Money) Known() bool { return m >= 0 }

// String returns the amount without trailing zeros, or "unknown".
func (m Money) String() string {
	if !m.Known() {
		return "unknown"
	}
	return strconv.FormatFloat(float64(m), 'f', -1, 64)
}

// MarshalJSON implements json.Marshaler.
func (m Money) MarshalJSON() ([]byte, error) {
	if !m.Known() {
		return []byte("null"), nil
	}
	return []byte(m.String()), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Money) UnmarshalJSON(text []byte) error {
	if bytes.Equal(text, []byte("null")) {
		*m = UnknownMoney()
		return nil
	}
	n, err := strconv.ParseFloat(string(text), 64)
	*m = Money(n)
	return err
}

// orUnknown returns the amount, or an unknown amount if it is 0.
func (m Money) orUnknown() Money {
	if m == 0 {
		return UnknownMoney()
	}
	return m
}

// plus adds two amounts, rounded to six decimal places. An unknown amount counts as 0.
// The sum is unknown only if one amount is unknown and the other is unknown or 0.
func (m Money) plus(n Money) Money {
	switch {
	case !n.Known() && m == 0:
		return n
	case !n.Known():
		return m
	case !m.Known() && n == 0:
		return m
	case !m.Known():
		m = 0
	}
	return Money(math.Round(float64(m+n)*spentShown) / spentShown)
}

// lacksPrice reports whether some provider of the file has no price for one of the types.
func lacksPrice(set *targets.Set, types ...captcha.Type) bool {
	return slices.ContainsFunc(set.Providers, func(p targets.Provider) bool {
		return slices.ContainsFunc(types, func(t captcha.Type) bool { return !p.Price.Known(t) })
	})
}

// If orders were solved or lost, unprice replaces amounts of 0 by the unknown amount. unprice is
// called for targets without a price in the configuration file.
func (t *Target) unprice() {
	if t.Solved+t.Lost > 0 {
		t.Spent = t.Spent.orUnknown()
	}
	for i := range t.Days {
		if d := &t.Days[i]; d.Solved+d.Lost > 0 {
			d.Spent = d.Spent.orUnknown()
		}
	}
}
