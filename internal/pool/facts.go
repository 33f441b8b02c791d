package pool

import (
	"encoding/json"
	"fmt"

	"poold/internal/captcha"
)

// Facts describe an order to the replica that adopts or ends it, and to the history. Redis stores
// the facts as JSON.
type Facts struct {
	Target     string           `json:"target"`
	Owner      string           `json:"owner,omitempty"` // owner of the target
	Provider   string           `json:"provider"`
	Account    string           `json:"account,omitempty"` // identifies the account at the provider, independent of pools.yaml
	Identity   captcha.Identity `json:"identity,omitzero"` // the identity without its proxy
	LifetimeMS int64            `json:"lifetime_ms"`
	MarginMS   int64            `json:"margin_ms"`
	Called     bool             `json:"called,omitempty"` // whether the submit had a callback address
	DelayMS    int64            `json:"callback_delay_ms"`
	TimeoutMS  int64            `json:"timeout_ms"`
	Choice     string           `json:"choice,omitempty"`   // how the provider was chosen; see purchase.Choice
	Unpriced   bool             `json:"unpriced,omitempty"` // stored form only: whether the price is PriceUnknown
}

// encode returns the stored form of an order's facts. If the argument price is PriceUnknown, the
// stored form says so.
func (f Facts) encode(price int64) string {
	f.Unpriced = price < 0
	text, _ := json.Marshal(f) // encoding strings and numbers cannot fail
	return string(text)
}

// decodeFacts parses the stored form of facts. If the text has Unpriced set, the result price is
// PriceUnknown, else the given price. After an error, f still has the facts that could be read.
func decodeFacts(text string, stored int64) (f Facts, price int64, err error) {
	if err = json.Unmarshal([]byte(text), &f); err != nil {
		err = fmt.Errorf("pool: the facts of an order: %w", err)
	}
	if price = stored; f.Unpriced {
		price = PriceUnknown
	}
	f.Unpriced = false
	return f, price, err
}
