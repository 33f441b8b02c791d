package status

import (
	"math"
	"time"

	"poold/internal/outcomes"
)

// Outcomes compares the providers; *outcomes.Book implements it.
type Outcomes interface {
	Rows(at time.Time) []outcomes.Row
	Changes() []outcomes.Change
}

// ProviderType compares a provider with the others for one type of CAPTCHA. All replicas have the same
// figures, which follow the last orders and reports.
type ProviderType struct {
	Type  string  `json:"type"`
	Share float64 `json:"share"` // share of the ended orders of the type, weighted towards the last hour
	// Cost is the expected cost per accepted token: the price divided by solved and by accepted; null =
	// the price is unknown.
	Cost   *float64 `json:"cost"`
	Solved float64  `json:"solved"` // share of orders that brought a token
	// Accepted is the share of tokens that the sites accepted, by the callers' reports; null = there are
	// no reports.
	Accepted *float64 `json:"accepted"`
	LeadP50  float64  `json:"lead_p50_s"` // seconds; 0 = unknown
	LeadP90  float64  `json:"lead_p90_s"`
}

// ProviderChange says that another provider gets the most orders of a type.
type ProviderChange struct {
	Type   string `json:"type"`
	From   string `json:"from"`
	To     string `json:"to"`
	At     string `json:"at"`     // RFC 3339, UTC
	Reason string `json:"reason"` // one sentence
}

// compareProviders adds the comparison of the providers to the document.
func (c *Collector) compareProviders(d *Document, at time.Time) {
	d.ProviderChanges = []ProviderChange{}
	byName := map[string][]ProviderType{}
	if c.Outcomes != nil {
		for _, r := range c.Outcomes.Rows(at) {
			byName[r.Provider] = append(byName[r.Provider], providerType(r))
		}
		for _, change := range c.Outcomes.Changes() {
			d.ProviderChanges = append(d.ProviderChanges, ProviderChange{
				Type: string(change.Type), From: change.From, To: change.To, At: stamp(change.At), Reason: change.Reason,
			})
		}
	}
	for i := range d.Providers {
		p := &d.Providers[i]
		p.Types = append([]ProviderType{}, byName[p.Name]...)
	}
}

func providerType(r outcomes.Row) ProviderType {
	p := ProviderType{
		Type: string(r.Type), Share: thousandths(r.Share), Solved: thousandths(r.Solved),
		LeadP50: thousandths(r.LeadP50.Seconds()), LeadP90: thousandths(r.LeadP90.Seconds()),
	}
	if r.Cost >= 0 {
		cost := math.Round(r.Cost*1e9) / 1e9
		p.Cost = &cost
	}
	if r.Reports > 0 {
		accepted := thousandths(r.Accepted)
		p.Accepted = &accepted
	}
	return p
}
