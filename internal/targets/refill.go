package targets

const (
	// MostDepth is the most tokens that a target can keep, in a window too.
	MostDepth = 10000

	// DefaultHitRate and DefaultMaxWaste are the defaults of hit_rate and max_waste.
	DefaultHitRate  = 0.97
	DefaultMaxWaste = 3.0
	// MostMaxWaste is the greatest max_waste.
	MostMaxWaste = 1000
)

// refillRules checks the keys of refilling against each other.
func (t *targetEntry) refillRules(inherited entry) {
	if t.bad("refill") || inherited.bad("refill") {
		return
	}
	if t.Refill == RefillFixed {
		for _, name := range []string{"min", "hit_rate", "max_waste"} {
			// The defaults may have them for the adaptive targets.
			if t.has(name) {
				t.at(name).fail("belongs to refill: adaptive: remove it, or set refill")
			}
		}
		t.Min = 0
		return
	}
	if !t.has("depth") {
		t.r.warn(t.line, "%s.depth: is inherited (%d): with refill: adaptive it is the most ever kept and on order, so say how many that shall be",
			t.path, t.Depth)
	}
	if t.bad("min", "depth", "warm") || inherited.bad("min", "depth", "warm") {
		return
	}
	if t.Min <= t.Depth {
		if t.has("depth") {
			t.roomRule()
		}
		return
	}
	if t.has("min") {
		t.at("min").fail("must not be above depth (%d of %d), which is the most ever kept", t.Min, t.Depth)
		return
	}
	t.at("depth").fail("must not be below min (%d of %d), which is always kept", t.Depth, t.Min)
}

// roomRule warns of a depth that leaves no room to replace the kept tokens before they
// expire, because depth counts the orders too.
func (t *targetEntry) roomRule() {
	kept := t.Min
	for _, w := range t.Warm {
		kept = max(kept, w.Tokens)
	}
	// The lead time is about a quarter of a usual lifetime.
	if enough := kept + (kept+3)/4; t.Depth < enough {
		t.r.warn(t.line, "%s: min or warm keep %d tokens with a depth of %d, which counts orders too: fewer are ready while some are renewed, so say depth: %d or more",
			t.path, kept, t.Depth, enough)
	}
}
