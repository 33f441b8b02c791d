package worth

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// seeds is the number of repetitions of a test with drawn outcomes.
const seeds = 400

func random(seed int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 7)) }

// outcomesUntil adds outcomes of the share `is` until the condition holds, and returns their number; most
// if it does not hold earlier.
func outcomesUntil(s *Share, dice *rand.Rand, is float64, most int, holds func() bool) int {
	for n := range most {
		if holds() {
			return n
		}
		s.Add(dice.Float64() < is)
	}
	return most
}

// A share that falls below half is noticed within 20 outcomes, and a recovery within 12, in nearly all
// draws.
func TestSharesFollowSuddenChanges(t *testing.T) {
	for _, tc := range []struct {
		was, is float64
		most    int
	}{
		{0.98, 0, 20}, {0.95, 0.1, 20}, {0.95, 0.4, 20}, {0.9, 0.3, 20}, {0.8, 0.2, 20},
		{0.02, 0.95, 12}, {0.1, 0.95, 12}, {0.3, 0.95, 12},
	} {
		late := 0
		for seed := range seeds {
			dice, s := random(seed), new(Share)
			for range 200 {
				s.Add(dice.Float64() < tc.was)
			}
			between := (tc.was + tc.is) / 2
			noticed := func() bool { return (s.Mean() < between) == (tc.is < between) }
			if outcomesUntil(s, dice, tc.is, tc.most+1, noticed) > tc.most {
				late++
			}
		}
		if late > seeds/10 {
			t.Errorf("from %v to %v: not noticed within %d outcomes in %d of %d draws", tc.was, tc.is, tc.most, late, seeds)
		}
	}
}

// A small change has moved the estimate most of the way within 200 outcomes.
func TestSharesFollowSmallChanges(t *testing.T) {
	for _, tc := range [][2]float64{{0.95, 0.75}, {0.7, 0.9}, {0.6, 0.5}} {
		sum := 0.0
		for seed := range seeds {
			dice, s := random(seed), new(Share)
			for range 300 {
				s.Add(dice.Float64() < tc[0])
			}
			for range 200 {
				s.Add(dice.Float64() < tc[1])
			}
			sum += s.Mean()
		}
		if mean := sum / seeds; math.Abs(mean-tc[1]) > 0.2*math.Abs(tc[0]-tc[1]) {
			t.Errorf("from %v to %v: the mean estimate after 200 outcomes is %.3f", tc[0], tc[1], mean)
		}
	}
}

// A constant share is rarely taken for a change for the worse.
func TestFalseChangesAreRare(t *testing.T) {
	for _, share := range []float64{0.99, 0.95, 0.9, 0.7, 0.5} {
		falls, outcomes := 0, 0
		for seed := range 40 {
			dice, s := random(seed), new(Share)
			for range 5000 {
				before := s.Mean()
				if outcomes++; s.Add(dice.Float64() < share) && s.Mean() < before {
					falls++
				}
			}
		}
		t.Logf("share %v: one false fall in %d outcomes", share, outcomes/max(1, falls))
		if falls*1000 > outcomes {
			t.Errorf("share %v: %d false falls in %d outcomes", share, falls, outcomes)
		}
	}
}

// Without outcomes the share is the prior, and the bound lies below the mean.
func TestSharesStayInRange(t *testing.T) {
	none := new(Share)
	if none.Mean() != priorShare || none.Outcomes() != 0 || none.Lower() >= none.Mean() {
		t.Errorf("mean %v, lower %v without outcomes", none.Mean(), none.Lower())
	}
	for seed := range 50 {
		dice, s := random(seed), new(Share)
		share := dice.Float64()
		for n := range 1000 {
			if n%100 == 0 {
				share = dice.Float64()
			}
			s.Add(dice.Float64() < share)
			if m, l := s.Mean(), s.Lower(); !(l >= leastShare && l <= max(m, leastShare) && m <= 1 && m > 0) || s.Outcomes() > memory+1 {
				t.Fatalf("mean %v, lower %v, outcomes %v", m, l, s.Outcomes())
			}
		}
	}
}

// reports draws n reports of the given callers in turn.
func reports(r *Reports, dice *rand.Rand, callers, n int, share float64) {
	for i := range n {
		r.Add("honest"+strconv.Itoa(i%callers), dice.Float64() < share)
	}
}

// One key cannot lower the share while others send an eighth of the reports; a sole caller decides.
func TestOneKeyCannotLowerTheShare(t *testing.T) {
	for _, callers := range []int{1, 2, 9} {
		dice, r := random(callers), new(Reports)
		reports(r, dice, callers, 200, 0.95)
		for range 500 {
			r.Add("spiteful", false)
			r.Add("spiteful", false)
			reports(r, dice, callers, 1, 0.95)
		}
		if got := r.Mean(); got < 0.8 {
			t.Errorf("%d other callers: the share falls to %.2f", callers, got)
		}
	}
	alone := new(Reports)
	for range 50 {
		alone.Add("only", false)
	}
	if got := alone.Mean(); got > 0.1 {
		t.Errorf("a sole caller rejects everything, and the share is %.2f", got)
	}
	nearly := new(Reports)
	reports(nearly, random(1), 1, 100, 0.95)
	for range 500 {
		nearly.Add("main", false)
	}
	if got := nearly.Mean(); got > 0.1 {
		t.Errorf("a caller sends nearly all reports, and the share is %.2f", got)
	}
}

// A drop that all callers see is noticed within 20 reports of all of them together, however many they
// are.
func TestReportsFollowADrop(t *testing.T) {
	for _, callers := range []int{1, 3, 10} {
		late := 0
		for seed := range seeds {
			dice, r := random(seed), new(Reports)
			reports(r, dice, callers, 200, 0.95)
			reports(r, dice, callers, 20, 0.2)
			if r.Mean() > 0.6 {
				late++
			}
		}
		if late > seeds/10 {
			t.Errorf("%d callers: not noticed within 20 reports in %d of %d draws", callers, late, seeds)
		}
	}
}

// Callers whose reports no longer count are dropped.
func TestOldCallersAreDropped(t *testing.T) {
	r := new(Reports)
	for i := range 5000 {
		r.Add("caller"+strconv.Itoa(i), true)
	}
	if n := len(r.callers); n > 6*memory {
		t.Errorf("%d callers are kept", n)
	}
}

// A change of the lead times by a factor is noticed within some solves; constant lead times are rarely
// taken for a change.
func TestLeadsFollowChanges(t *testing.T) {
	draw := func(dice *rand.Rand, median, sigma float64) time.Duration {
		return time.Duration(median * math.Exp(sigma*dice.NormFloat64()) * float64(time.Second))
	}
	for _, tc := range []struct {
		factor float64
		most   int
	}{{5, 5}, {0.2, 5}, {2, 25}, {0.5, 25}} {
		late := 0
		for seed := range seeds {
			dice, l := random(seed), new(Leads)
			for range 100 {
				l.Add(draw(dice, 18, 0.45))
			}
			for range tc.most {
				l.Add(draw(dice, 18*tc.factor, 0.45))
			}
			if was, now := math.Abs(math.Log(l.Mean()/18)), math.Abs(math.Log(l.Mean()/(18*tc.factor))); now > was {
				late++
			}
		}
		if late > seeds/10 {
			t.Errorf("times %v: not noticed within %d solves in %d of %d draws", tc.factor, tc.most, late, seeds)
		}
	}
	for _, sigma := range []float64{0.2, 0.45, 0.8} {
		changes, all := 0, 0
		for seed := range 40 {
			dice, l := random(seed), new(Leads)
			for range 1000 {
				if all++; l.Add(draw(dice, 18, sigma)) {
					changes++
				}
			}
		}
		t.Logf("sigma %v: one false change in %d solves", sigma, all/max(1, changes))
		if changes*200 > all {
			t.Errorf("sigma %v: %d false changes in %d solves", sigma, changes, all)
		}
	}
}

func TestLeadsInRange(t *testing.T) {
	none := new(Leads)
	if none.Known() || none.Mean() != 0 || none.Quantile(0.5) != 0 {
		t.Error("lead times are known without a solve")
	}
	l := new(Leads)
	for _, lead := range []time.Duration{-time.Second, 0, time.Millisecond, 24 * time.Hour} {
		l.Add(lead)
		if m := l.Mean(); !(m >= 0) || math.IsInf(m, 0) {
			t.Errorf("mean %v after %v", m, lead)
		}
	}
	even := LeadsOf([]time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second})
	if q := even.Quantile(0.5).Seconds(); q < 20/binRatio || q > 20*binRatio {
		t.Errorf("the median of 10, 20 and 30 s is %v s", q)
	}
	if m := even.Mean(); m < 20/binRatio || m > 20*binRatio {
		t.Errorf("the mean of 10, 20 and 30 s is %v s", m)
	}
}
