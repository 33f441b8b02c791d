package targets

import "poold/internal/captcha"

// noHourlyTotal explains a key that only the budget of a target has.
func noHourlyTotal(key string) string {
	if key == "per_hour" {
		return "over all targets only a day has a budget: write per_day, or give targets or the defaults a per_hour"
	}
	return ""
}

// budgetRules warns of a budget that cannot be used up.
func (rec record) budgetRules(b Budget) {
	rec = rec.section("budget")
	// One who inherits both is not to blame: the defaults were told already.
	if len(rec.marks) > 0 && b.PerDay > 0 && b.PerHour > b.PerDay {
		rec.r.warn(rec.at("per_hour", "per_day").line, "%s.per_hour: is above per_day (%d of %d), so an hour can never use it up",
			rec.path, b.PerHour, b.PerDay)
	}
}

// pricesOf makes prices of one for all types, or of a section with some of them.
func pricesOf(m mark) (p Prices) {
	of := m.record()
	for _, t := range captcha.SolvableTypes() {
		named := m
		if len(of.marks) > 0 {
			named = of.marks[string(t)]
		}
		if per1000, ok := named.got.(float64); ok && named.ok {
			*p.of(t) = Costs(per1000)
		}
	}
	return p
}
