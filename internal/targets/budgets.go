package targets

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"poold/internal/captcha"
)

// Micros returns the limits in millionths of the currency; 0 = no limit.
func (m Money) Micros() (perDay, perMonth int64) {
	return int64(math.Round(m.MoneyPerDay * 1e6)), int64(math.Round(m.MoneyPerMonth * 1e6))
}

// decode reads a mapping of names to owners.
func (o *Owners) decode(at *setting) {
	*o = Owners{}
	at.mapping("qa@example.com: …", func(name string, item *setting) {
		var one Owner
		item.decode(reflect.ValueOf(&one).Elem())
		at.keys[name], (*o)[name] = item, one
	})
}

func (*Owner) validate(at *setting) { at.require("budget") }

// checkBudgets compares the budgets with the targets and the prices of the providers.
func (s *Set) checkBudgets(top *setting) {
	all, owners := top.at("targets"), []string(nil)
	for i := range s.Targets {
		t := &s.Targets[i]
		owners = append(owners, t.Owner)
		s.checkPrice(all.at(t.Name).at("budget"), t.Budget.Money, false, t)
	}
	s.checkPrices(top.at("budget"), s.Budget.Money, false, func(*Target) bool { return true })
	if s.Solve != nil {
		owners = append(owners, s.Solve.Owner)
		s.checkPrice(top.at("solve").at("budget"), s.Solve.Budget.Money, false, nil)
	}
	for name, owner := range s.Owners {
		at := top.at("owners").at(name)
		s.checkPrices(at.at("budget"), owner.Budget.Money, false, func(t *Target) bool { return t.Owner == name })
		if !all.bad && !slices.Contains(owners, name) {
			at.warn("no target has this owner, so the budget limits nothing")
		}
	}
}

// checkPrices calls checkPrice for each target that a budget in money covers.
func (s *Set) checkPrices(at *setting, m Money, each bool, covers func(*Target) bool) {
	if m == (Money{}) {
		return
	}
	for i := range s.Targets {
		if t := &s.Targets[i]; covers(t) {
			s.checkPrice(at, m, each, t)
		}
	}
}

// checkPrice checks the prices for a budget in money that covers a target: some provider, or with each every provider,
// must have a price for the target's type. Without a target, a price for any type is enough.
func (s *Set) checkPrice(at *setting, m Money, each bool, t *Target) {
	if m == (Money{}) || at.bad || s.Simulated() {
		return
	}
	types, text := captcha.SolvableTypes(), "any type"
	if t != nil {
		types, text = []captcha.Type{t.Identity.Type}, fmt.Sprintf("%s (target %s)", t.Identity.Type, t.Name)
	}
	lacks := func(p Provider) bool {
		return !slices.ContainsFunc(types, func(t captcha.Type) bool { return p.Price.For(t) >= 0 })
	}
	first, any := slices.IndexFunc(s.Providers, lacks),
		slices.ContainsFunc(s.Providers, func(p Provider) bool { return !lacks(p) })
	if first >= 0 && (each || !any) {
		at.fail("limits money, but provider %s has no price for %s: give it price_per_1000", s.Providers[first].Name, text)
	}
}
