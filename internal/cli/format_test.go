package cli

import (
	"testing"

	"poold/internal/status"
	"poold/internal/targets"
)

// The text of a price includes the currency, unless there is nothing to pay or the price is
// unknown.
func TestPriceHasTheCurrency(t *testing.T) {
	for _, c := range []struct {
		currency targets.Currency
		price    status.Money
		want     string
	}{{"", 0.00299, "0.00299"}, {"USD", 1234.5, "1234.5 USD"}, {"$", 0.00299, "$0.00299"}, {"$", 0, "-"}, {"$", status.UnknownMoney(), "unknown"}} {
		if got := price(c.currency, c.price); got != c.want {
			t.Errorf("%s: %s, want %s", c.currency, got, c.want)
		}
	}
}

// Money is formatted without a currency. Small amounts have more digits.
func TestAmountHasTwoSignificantDigits(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0.00", 4.1: "4.10", 1234567.891: "1234567.89", 0.1: "0.10", 0.0996: "0.100", 0.0299: "0.030", 0.000123: "0.00012", 0.000001: "0.0000010",
	} {
		if got := Amount(x); got != want {
			t.Errorf("%g: %s, want %s", x, got, want)
		}
	}
}
