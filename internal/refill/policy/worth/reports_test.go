package worth

import (
	"fmt"
	"testing"
)

// One key that reports only rejections does not lower the share, while other callers send one of six
// reports. If no other caller reports any more, the key decides after 165 rejections.
func TestWhenOneKeyDecides(t *testing.T) {
	for _, callers := range []int{1, 2, 3, 10} {
		dice, r := random(callers), new(Reports)
		reports(r, dice, callers, 300, .95)
		for i := range 200 {
			for range 5 {
				r.Add("bad", false)
			}
			if r.Add(fmt.Sprint("honest", i%callers), dice.Float64() < .95); r.Mean() < .75 {
				t.Fatalf("%d other callers: the share fell to %.2f", callers, r.Mean())
			}
		}
		alone := new(Reports)
		reports(alone, dice, callers, 300, .95)
		rejections := 0
		for ; alone.Mean() > .6 && rejections < 1000; rejections++ {
			alone.Add("bad", false)
		}
		if rejections != 165 {
			t.Errorf("%d other callers: one key decided after %d rejections, want 165", callers, rejections)
		}
	}
}

// A caller that still reports is kept.
func TestACallerThatReportsIsKept(t *testing.T) {
	r := new(Reports)
	for i := range 2000 {
		if r.Add(fmt.Sprint("once ", i), true); i%40 == 0 {
			r.Add("regular", false)
		}
	}
	if r.callers["regular"] == nil {
		t.Error("the caller was forgotten")
	}
}

// Of two callers whose omission gives the same mean, the one that leaves more reports decides. The
// result is the same for each order of the map.
func TestEqualSharesDoNotDependOnTheMap(t *testing.T) {
	for range 50 {
		r := Reports{all: Share{outcomes: 40, successes: 10}, callers: map[string]*reporter{
			"a": {others: Share{outcomes: 20, successes: 18}}, "b": {others: Share{outcomes: 30, successes: 27}},
		}}
		if s := r.share(); s.outcomes != 30 {
			t.Fatalf("the share with the weight %v counts, want 30", s.outcomes)
		}
	}
}
