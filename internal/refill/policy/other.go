package policy

import "context"

// Fixed is the same simulation with that fixed depth.
func (s Simulation) Fixed(depth int) Simulation {
	s.Params.Adaptive, s.Params.Depth, s.Params.Min = false, depth, 0
	return s
}

// Adaptive is the same simulation with the adaptive policy at that max_waste. What
// was the depth of a fixed target is no limit for it: as much as the provider solves at
// once may be held and on order.
func (s Simulation) Adaptive(maxWaste float64) Simulation {
	if !s.Params.Adaptive {
		s.Params.Depth = max(s.Params.Depth, s.Concurrency)
	}
	s.Params.Adaptive, s.Params.MaxWaste = true, maxWaste
	return s
}

// NearestFixed searches the least fixed depth that has as many hits as a result of the
// same demand, and answers it with what it gives. Depths above what that result held and
// ordered at its peak are not tried: they help by chance only. Where none has as many,
// it is the least depth with as many as that peak has. It takes one run and one for each
// halving of the peak.
func (s Simulation) NearestFixed(ctx context.Context, than Result) (depth int, nearest Result, err error) {
	depth = than.PeakHeld
	if nearest, err = s.Fixed(depth).Run(ctx); err != nil {
		return 0, Result{}, err
	}
	wanted := min(than.Hits, nearest.Hits)
	for tooFew := -1; depth-tooFew > 1; {
		middle := (tooFew + depth) / 2
		r, err := s.Fixed(middle).runFor(ctx, wanted)
		if err != nil {
			return 0, Result{}, err
		}
		if r.Hits < wanted {
			tooFew = middle
		} else {
			depth, nearest = middle, r
		}
	}
	return depth, nearest, nil
}
