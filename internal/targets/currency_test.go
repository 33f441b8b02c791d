package targets

import (
	"fmt"
	"testing"
)

// A known code follows the amount and a sign precedes it. Other texts are refused.
func TestCurrency(t *testing.T) {
	for text, want := range map[string]string{
		`""`: "1.50", "USD": "1.50 USD", "$": "$1.50", "€": "€1.50", "R$": "R$1.50", "kr.": "kr.1.50",
		"usd": "", "dollars": "", "<b>": "", "1": "", "'a b'": "", `"\x1b"`: "", "[USD]": "",
	} {
		set, err := Parse("pools.yaml",
			fmt.Appendf(nil, "currency: %s\ntargets: {a: {type: turnstile, sitekey: x, pageurl: 'https://e.com/', owner: a}}\n",
				text), References{})
		switch {
		case err != nil && want != "":
			t.Errorf("%s: %v", text, err)
		case err == nil && set.Currency.With("1.50") != want:
			t.Errorf("%s is shown as %s, want %s", text, set.Currency.With("1.50"), want)
		}
	}
}
