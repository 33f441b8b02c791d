package targets

// noHourlyTotal explains a key that only the budget of a target has.
func noHourlyTotal(key string) string {
	if key == "per_hour" {
		return "over all targets only a day has a budget: write per_day, or give targets or the defaults a per_hour"
	}
	return ""
}

// budgetRules warns of a budget that cannot be used up. If the section wrote neither key,
// the warning of the defaults is enough.
func (e entry) budgetRules(b Budget) {
	if e = e.at("budget"); len(e.keys) > 0 && b.PerDay > 0 && b.PerHour > b.PerDay {
		e.r.warn(e.at("per_hour", "per_day").line, "%s.per_hour: is above per_day (%d of %d), so an hour can never use it up", e.path, b.PerHour, b.PerDay)
	}
}
