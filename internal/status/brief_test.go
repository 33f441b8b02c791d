package status

import (
	"strings"
	"testing"

	"poold/internal/pool"
	"poold/internal/redisdb"
	"poold/internal/targets"
)

// refusedFile is a configuration file whose last reload was refused.
type refusedFile struct{ *fixedFile }

func (refusedFile) Status() targets.Status {
	return targets.Status{LoadedAt: day, Problems: []targets.Problem{{Line: 3, Text: "a problem that quotes the file"}}}
}

func TestBrief(t *testing.T) {
	t.Parallel()
	set := newSet(newTarget("a"), newTarget("b"))
	s, stock := sources(set)
	c := NewCollector(s)
	stock.change(set.Targets[0].ID, pool.Stock{Counts: pool.Counts{Fresh: 40}})
	if line := c.Brief(t.Context()); line != "serving 2 targets, 40 tokens ready" {
		t.Error(line)
	}
	if c.asked.Load() != 0 {
		t.Error("the line counts as a reader of the status")
	}
	s.File = refusedFile{&fixedFile{set: newSet(newTarget("a"))}}
	if line := NewCollector(s).Brief(t.Context()); !strings.HasPrefix(line, "serving 1 target, ") || !strings.Contains(line, "; the configuration file was refused") || strings.Contains(line, "quotes") {
		t.Error(line)
	}
	s.Health = func() redisdb.Health { return redisdb.Health{Reason: "redis does not answer"} }
	if line := NewCollector(s).Brief(t.Context()); !strings.HasPrefix(line, "waiting for redis, which holds the tokens of 1 target: redis does not answer; the") {
		t.Error(line)
	}
	surveys := stock.surveys.Load()
	s, stock = sources(setOf(manyTargets + 1))
	if line := NewCollector(s).Brief(t.Context()); line != "serving 1001 targets" || stock.surveys.Load() != 0 || surveys == 0 {
		t.Errorf("%q after %d surveys", line, stock.surveys.Load())
	}
}
