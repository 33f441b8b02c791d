package targets

import (
	"gopkg.in/yaml.v3"

	"poold/internal/captcha"
)

const (
	// maxBudget is far above what any account solves, so that a digit too many is
	// noticed.
	maxBudget = 1_000_000

	maxPrice = 1e6 // per 1000 solves
)

// budget reads the section `budget`.
func (r *reader) budget(v value, dst *Budget) {
	v.section(keys{
		"per_day": func(v value) bool { return v.integer(&dst.PerDay, 0, maxBudget) },
	}, func(key string) string {
		if key == "per_hour" {
			return "over all targets only a day has a budget: write per_day, or give targets or the defaults a per_hour"
		}
		return ""
	})
}

// readBudget reads the budget of a target, or that of the defaults, over what
// dst holds already: a key that is not written stays as it was there.
func readBudget(v value, dst *Budget) bool {
	g, ok := v.section(keys{
		"per_hour": func(v value) bool { return v.integer(&dst.PerHour, 0, maxBudget) },
		"per_day":  func(v value) bool { return v.integer(&dst.PerDay, 0, maxBudget) },
	}, nil)
	if !ok || g.bad("per_hour", "per_day") {
		return false
	}
	// One who inherits both is not to blame: the defaults were told already.
	if len(g) > 0 && dst.PerDay > 0 && dst.PerHour > dst.PerDay {
		name := "per_hour"
		if !g.has(name) {
			name = "per_day"
		}
		at := v.at(g, name)
		v.r.warn(at.line, "%s.per_hour: is above per_day (%d of %d), so an hour can never use it up", v.path, dst.PerHour, dst.PerDay)
	}
	return true
}

// readPrices reads one price for all types, or a mapping with some of them.
func readPrices(v value, dst *Prices) bool {
	const want = "a number, or a mapping of types to numbers such as {turnstile: 1.2}"
	known, names := keys{}, []string{}
	for _, t := range captcha.Types() {
		known[string(t)] = func(v value) bool { return v.number(dst.of(t), 0, maxPrice) }
		names = append(names, string(t))
	}
	switch {
	case !v.plain():
		return false
	case v.node.Kind == yaml.MappingNode:
		g, ok := v.section(known, nil)
		return ok && !g.bad(names...)
	case v.node.Kind != yaml.ScalarNode:
		return v.fail("must be %s", want)
	}
	var one float64
	if !v.number(&one, 0, maxPrice) {
		return false
	}
	for _, t := range captcha.Types() {
		*dst.of(t) = one
	}
	return true
}
