package policy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// DemandHelp lists the built-in demand models, for --help.
const DemandHelp = "poisson:RATE, diurnal:RATE, office:RATE, onoff:RATE, sessions:RATE, flash:RATE, cron:PERIOD, " +
	"timer:PERIOD, clusters:SIZE, mixed:RATE"

const (
	daySeconds = 86400.0
	// MostArrivals is the maximum number of requests of a model or a trace.
	MostArrivals = 20_000_000
	mostRate     = 1000.0
	longestDay   = 366 * daySeconds

	cronLeast, cronMost = 20, 40 // number of requests of one cron job
	clustersDaily       = 5.0
)

// ErrDemand means that a demand model or a trace is invalid.
var ErrDemand = errors.New("demand")

// Demand draws arrival times from a demand model. The arrivals cover length seconds, and their
// times are seconds from the start. A model is NAME:NUMBER, as in DemandHelp. The number is the
// mean rate in requests per second while there is demand. For the models cron and timer, the number
// is the period, in seconds or with a unit. For the model named clusters, it is the number
// of simultaneous requests. The same seed always gives the same arrivals.
func Demand(model string, length float64, seed uint64) ([]float64, error) {
	name, text, _ := strings.Cut(model, ":")
	draw := models[name]
	number, err := strconv.ParseFloat(text, 64)
	most, rate := mostRate, number
	switch name {
	case "cron", "timer":
		if period, bad := time.ParseDuration(text); bad == nil {
			number, err = period.Seconds(), nil
		}
		most, rate = daySeconds, 1/number
		if name == "cron" {
			rate *= cronMost
		}
	case "clusters":
		rate = number * clustersDaily / daySeconds
	}
	switch {
	case draw == nil:
		return nil, fmt.Errorf("%w: %q is none of %s", ErrDemand, model, DemandHelp)
	case err != nil || !(number > 0 && number <= most):
		return nil, fmt.Errorf("%w: %q needs a number above 0 and up to %g after the colon", ErrDemand, model, most)
	case !(length > 0 && length <= longestDay):
		return nil, fmt.Errorf("%w: a length of %g s is not above 0 and up to a year", ErrDemand, length)
	case rate*length > MostArrivals:
		return nil, fmt.Errorf("%w: more than %d requests", ErrDemand, MostArrivals)
	}
	random := rand.New(rand.NewPCG(seed, uint64(len(name)))) //nolint:gosec // G404: a model, and repeatable
	d := &drawing{length: length, random: random}
	draw(d, number)
	slices.Sort(d.arrivals)
	cut, _ := slices.BinarySearch(d.arrivals, length)
	return d.arrivals[:cut], nil
}

// drawing is a random demand that is being drawn.
type drawing struct {
	arrivals []float64
	length   float64
	random   *rand.Rand
}

var models = map[string]func(d *drawing, number float64){
	"poisson":  (*drawing).steady,
	"diurnal":  (*drawing).diurnal,
	"office":   (*drawing).office,
	"onoff":    (*drawing).onOff,
	"sessions": (*drawing).sessions,
	"flash":    (*drawing).flash,
	"cron":     (*drawing).cron,
	"timer":    (*drawing).timer,
	"clusters": (*drawing).clusters,
	"mixed":    (*drawing).mixed,
}

func (d *drawing) exp(mean float64) float64 { return d.random.ExpFloat64() * mean }

// addRequests adds requests between the times start and end. At the time t, the rate is the
// argument rate multiplied by share(t), which is at most 1.
func (d *drawing) addRequests(start, end, rate float64, share func(t float64) float64) {
	for t := start + d.exp(1/rate); t < min(end, d.length); t += d.exp(1 / rate) {
		if share == nil || d.random.Float64() < share(t) {
			d.arrivals = append(d.arrivals, t)
		}
	}
}

func (d *drawing) steady(rate float64) { d.addRequests(0, d.length, rate, nil) }

// diurnal draws a demand that follows a daily sine between 0 and twice the rate.
func (d *drawing) diurnal(rate float64) {
	d.addRequests(0, d.length, 2*rate, func(t float64) float64 { return (1 - math.Cos(2*math.Pi*t/daySeconds)) / 2 })
}

// office draws a demand that is steady from 9:00 to 17:30, with ramps of half an hour.
// Outside these hours it has no requests.
func (d *drawing) office(rate float64) {
	const opens, closes, ramp = 9 * 3600.0, 17.5 * 3600.0, 1800.0
	d.addRequests(0, d.length, rate, func(t float64) float64 {
		t = math.Mod(t, daySeconds)
		return min(1, max(0, min(t-opens, closes-t)/ramp))
	})
}

// onOff draws a demand that alternates: on average it is steady for two minutes and then silent for
// eight minutes.
func (d *drawing) onOff(rate float64) {
	const on, off = 120.0, 480.0
	for t := d.exp(off); t < d.length; {
		end := t + d.exp(on)
		d.addRequests(t, end, rate, nil)
		t = end + d.exp(off)
	}
}

// sessions draws the demand of independent users. The number of a user's requests and
// the pauses between them are heavy-tailed.
func (d *drawing) sessions(rate float64) {
	const tail, fewest, mostInOne, pause, spread = 1.3, 2.0, 300.0, 8.0, 1.0
	const mean = fewest * tail / (tail - 1) // requests of one user, approximately
	for t := d.exp(mean / rate); t < d.length; t += d.exp(mean / rate) {
		left := min(mostInOne, fewest*math.Pow(1-d.random.Float64(), -1/tail))
		for at := t; left >= 1 && at < d.length; left-- {
			d.arrivals = append(d.arrivals, at)
			at += pause * math.Exp(spread*d.random.NormFloat64())
		}
	}
}

// flash draws a demand at a tenth of the given rate. About every two hours, a crowd comes at ten
// times the rate and fades within minutes.
func (d *drawing) flash(rate float64) {
	const between, fade = 7200.0, 120.0
	d.addRequests(0, d.length, rate/10, nil)
	for t := d.exp(between); t < d.length; t += d.exp(between) {
		d.addRequests(t, t+8*fade, 10*rate, func(now float64) float64 { return math.Exp((t - now) / fade) })
	}
}

// cron draws 20 to 40 requests within about 15 s in every period, with a few seconds of jitter.
func (d *drawing) cron(period float64) {
	const gap, jitter = 0.5, 4.0
	for t := period; t < d.length; t += period {
		at := t + jitter*d.random.Float64()
		for range cronLeast + d.random.IntN(cronMost-cronLeast+1) {
			d.arrivals = append(d.arrivals, at)
			at += d.exp(gap)
		}
	}
}

// timer draws one request per period, which may be a few seconds late.
func (d *drawing) timer(period float64) {
	const jitter = 8.0
	for t := period; t < d.length; t += period {
		d.arrivals = append(d.arrivals, t+min(jitter, period/4)*d.random.Float64())
	}
}

// clusters draws groups of simultaneous requests, a few times a day at random times. The
// requests of a group come within half a second.
func (d *drawing) clusters(size float64) {
	const within = 0.5
	const between = daySeconds / clustersDaily
	for t := d.exp(between); t < d.length; t += d.exp(between) {
		for range int(math.Ceil(size)) {
			d.arrivals = append(d.arrivals, t+within*d.random.Float64())
		}
	}
}

// mixed draws a diurnal demand with bursts and with a cron job every quarter of an hour.
func (d *drawing) mixed(rate float64) {
	const every = 900.0
	d.diurnal(rate / 2)
	d.onOff(rate)
	d.cron(every)
}

// ReadTrace reads arrival times in ascending order, one per line, as decimal seconds from the start.
// ReadTrace ignores empty lines and comments that begin with #.
func ReadTrace(r io.Reader) ([]float64, error) {
	var arrivals []float64
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		t, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil || !(t >= 0 && t <= longestDay):
			return nil, fmt.Errorf("%w: line %d is not a number of seconds from 0 to a year", ErrDemand, n)
		case len(arrivals) > 0 && t < arrivals[len(arrivals)-1]:
			return nil, fmt.Errorf("%w: line %d is before the line above", ErrDemand, n)
		case len(arrivals) == MostArrivals:
			return nil, fmt.Errorf("%w: more than %d requests", ErrDemand, MostArrivals)
		}
		arrivals = append(arrivals, t)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: reading it: %w", ErrDemand, err)
	}
	return arrivals, nil
}
