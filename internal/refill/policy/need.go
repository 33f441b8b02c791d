package policy

import (
	"context"
	"fmt"
	"math"
	"strconv"
)

const (
	// MostMaxWaste is the greatest max_waste that a search tries.
	MostMaxWaste = 1000
	// A search ends when the least max_waste that suffices is at most nearEnough times the greatest
	// max_waste that does not suffice.
	nearEnough = 1.2
	// With fewer than fewRequests requests there is no Need.
	fewRequests = 50
)

// Need is the result of a search for the max_waste that reaches the wanted hit rate. Its JSON form
// appears in the output of poold simulate.
type Need struct {
	MaxWaste   *float64 `json:"max_waste"`    // approximate least sufficient value; null = no value up to 1000 suffices
	HitRateNow float64  `json:"hit_rate_now"` // hit rate with the current max_waste
	Text       string   `json:"text"`         // the result as a sentence
}

// newNeed returns the Need of a target whose hit rate is too low. The argument price is the max_waste
// that reaches the wanted hit rate; 0 = no value does.
func newNeed(k *Params, rate, price float64) *Need {
	const tiny = 1e-6 // corrects rounding errors
	// The rate is rounded down, so that it never appears equal to the wanted rate.
	n := &Need{HitRateNow: math.Floor(1e4*rate+tiny) / 1e4}
	says := fmt.Sprintf("is not reached by any max_waste up to %d", MostMaxWaste)
	if price > 0 {
		price = twoDigits(price)
		n.MaxWaste = &price
		says = fmt.Sprintf("needs max_waste of about %.4g", price)
	}
	n.Text = fmt.Sprintf("%.4g %% %s here (now %g): %.1f %%", 100*k.HitRate, says, k.MaxWaste, math.Floor(1e3*rate+tiny)/10)
	return n
}

func twoDigits(x float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(x))-1)
	up, _ := strconv.ParseFloat(fmt.Sprintf("%.1e", math.Ceil(x/unit-1e-9)*unit), 64) // cannot fail for a formatted number
	return up
}

// Need searches for the max_waste that reaches the wanted hit rate, with the same demand and seed.
// The result is nil if r already reaches that hit rate, if the target has a fixed depth, or if
// there are too few requests.
func (s Simulation) Need(ctx context.Context, r Result) (*Need, error) {
	if !s.Params.Adaptive || r.Requests < fewRequests || r.HitRate >= s.Params.HitRate {
		return nil, nil //nolint:nilnil // no Need
	}
	reaches := func(price float64) (bool, error) {
		one := s
		one.Params.MaxWaste = price
		is, err := one.runFor(ctx, int(s.Params.HitRate*float64(len(s.Arrivals))))
		return is.HitRate >= s.Params.HitRate, err
	}
	low, high := s.Params.MaxWaste, float64(MostMaxWaste)
	enough, err := reaches(high)
	if err != nil {
		return nil, err
	}
	if !enough {
		return newNeed(&s.Params, r.HitRate, 0), nil
	}
	for high > nearEnough*low {
		middle := twoDigits(math.Sqrt(low * high))
		if enough, err = reaches(middle); err != nil {
			return nil, err
		}
		if enough {
			high = middle
		} else {
			low = middle
		}
	}
	return newNeed(&s.Params, r.HitRate, high), nil
}
