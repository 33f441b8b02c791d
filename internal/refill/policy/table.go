package policy

import (
	"math"
	"sort"
)

// The table counts the requests that followed each situation. A situation is the silence since the
// last request and the busyness at that request. Times are in scaled seconds.
const (
	horizons = 3
	bins     = 44
	binWidth = 0.25
	binsZero = 18 // index of the bin that begins at ratio 1; bins cover the ratios from 1/90 to 600

	// silences is the number of buckets of silence. The last bucket begins at half a day and has no
	// upper end.
	silences = 34
	// A situation depends on the busyness only while the silence is in one of the first busySilences
	// buckets.
	busySilences = 11
	// busies is the number of buckets of busyness. The last bucket has no upper end.
	busies     = 16
	situations = busySilences*busies + silences - busySilences
	// mostCells is the maximum number of situations with samples. When this number is reached, a
	// new situation replaces the cell with the least weight.
	mostCells = 104

	// sampleUnit is the weight of one sample. sampleUnit is above 1, so that weights can be halved.
	sampleUnit = 512
	// A histogram is halved when its weight reaches halveAt, so that the table follows changes of the
	// demand.
	halveAt = 100 * sampleUnit

	// A request causes a sample only if the last sample is at least requestStep old. In a silence, the
	// interval between samples is quietStep. After a silence of lateAfter, the interval is lateStep.
	requestStep = 0.5
	quietStep   = 2.0
	lateStep    = 10.0
	lateAfter   = 120.0

	// pendings is the maximum number of pending samples.
	pendings = 256
)

const (
	doubleTo = 48.0 // the buckets of silence double in length up to this time
	grow     = 1.3  // longer buckets grow by this factor
)

// silenceEdges contains the ends of the buckets of silence: 1.5, 3, 6, ... 48, 62, 81, ... half a
// day.
var silenceEdges = func() (edges [silences - 1]float64) {
	edge := 1.5
	for i := range edges {
		edges[i] = edge
		if edge < doubleTo {
			edge *= 2
		} else {
			edge *= grow
		}
	}
	return edges
}()

// busyEdges contains the ends of the buckets of busyness: 1.4 x 1.5^k.
var busyEdges = func() (edges [busies - 1]float64) {
	edge := 1.4
	for i := range edges {
		edges[i] = edge
		edge *= 1.5
	}
	return edges
}()

// bucket returns the index of the first bucket whose end is above x.
func bucket(edges []float64, x float64) int {
	return sort.Search(len(edges), func(i int) bool { return x < edges[i] })
}

// situationOf returns the index of the situation with this silence and this bucket of busyness.
func situationOf(silence float64, busy int) int {
	s := bucket(silenceEdges[:], silence)
	if s < busySilences {
		return s*busies + busy
	}
	return busySilences*busies + s - busySilences
}

// histogram is the distribution of the number D of requests that followed a situation within one
// horizon. D is recorded relative to the mean m of the fallback estimate, as log((D+1/2)/(m+1/2)).
type histogram struct {
	Bins   [bins]uint16 `json:"bins"` // in units of 1/sampleUnit
	weight uint32       // sum of Bins
}

func binOf(ratio float64) int {
	return min(bins-1, max(0, int(math.Floor(ratio/binWidth))+binsZero))
}

// add adds one outcome. The result is true if add first halved the counts of the older outcomes.
func (h *histogram) add(ratio float64) (halved bool) {
	if halved = h.weight > halveAt-sampleUnit; halved {
		h.halve()
	}
	h.Bins[binOf(ratio)] += sampleUnit
	h.weight += sampleUnit
	return halved
}

func (h *histogram) halve() {
	h.weight = 0
	for i := range h.Bins {
		h.Bins[i] /= 2
		h.weight += uint32(h.Bins[i])
	}
}

// cell contains the samples of a situation.
type cell struct {
	After [horizons]histogram `json:"after"`
	// Late counts the samples with a request after the near horizon and before the last horizon.
	Late uint32 `json:"late"`
}

// settleLate adds a sample to Late after the sample was added to the last histogram. Late and the
// histogram are rounded separately when they are halved, so settleLate also ensures that Late does
// not exceed the histogram's weight.
func (c *cell) settleLate(halved, came bool) {
	if halved {
		c.Late /= 2
	}
	if came {
		c.Late += sampleUnit
	}
	c.Late = min(c.Late, c.After[horizons-1].weight)
}

// pending is a sample whose last horizon has not passed yet.
type pending struct {
	at    float64
	shape float32 // shape of the fallback when the sample was taken
	count uint32  // number of requests when the sample was taken
	near  uint32  // number of requests up to the near horizon
	cell  uint16
}

// table contains the cells, the gaps and the pending samples. A cell is created with its first
// sample.
type table struct {
	cells [situations]*cell
	known int // number of cells that exist
	gaps  gaps

	ring [pendings]pending
	head uint32           // number of samples ever added
	done [horizons]uint32 // number of samples whose horizon has passed, by horizon
}

// note adds a pending sample, unless too many samples are pending.
func (t *table) note(at, shape float64, count uint32, situation int) {
	if t.head-t.done[horizons-1] >= pendings {
		return
	}
	t.ring[t.head%pendings] = pending{
		at: at, shape: float32(shape), count: count,
		cell: uint16(situation), //nolint:gosec // G115: below situations
	}
	t.head++
}

// settle adds every sample whose horizon has passed to the histogram of that horizon. The argument
// `ends` contains the horizons in scaled seconds.
func (t *table) settle(at float64, count uint32, ends *[horizons]float64, scale float64) {
	for h, length := range ends {
		for ; t.done[h] != t.head; t.done[h]++ {
			p := &t.ring[t.done[h]%pendings]
			if p.at+length*scale > at {
				break
			}
			c := t.cell(int(p.cell))
			expected := length * float64(p.shape) / fallbackWindow
			halved := c.After[h].add(math.Log((float64(count-p.count) + 0.5) / (expected + 0.5)))
			switch h {
			case 0:
				p.near = count
			case horizons - 1:
				c.settleLate(halved, count != p.near)
			}
		}
	}
}

// cell returns the cell of a situation, and creates it if it does not exist.
func (t *table) cell(situation int) *cell {
	if c := t.cells[situation]; c != nil {
		return c
	}
	c := new(cell)
	if t.known < mostCells {
		t.known++
	} else {
		c = t.evict()
		*c = cell{}
	}
	t.cells[situation] = c
	return c
}

// evict removes the cell with the least weight, and returns it.
func (t *table) evict() *cell {
	least := -1
	for i, c := range t.cells {
		if c != nil && (least < 0 || c.After[0].weight < t.cells[least].After[0].weight) {
			least = i
		}
	}
	c := t.cells[least]
	t.cells[least] = nil
	return c
}

// exceedance is a histogram in a form for fast queries.
type exceedance struct {
	above  [bins + 1]float32 // weight of each bin and all higher bins
	weight float64
	shift  float64 // -log(m+1/2), which converts log n to the ratio
}

// prepare computes, for each bin of a histogram, the number of samples in this bin and the bins
// above. The argument `mean` is the current mean of the fallback estimate.
func (o *exceedance) prepare(h *histogram, mean float64) {
	sum := uint32(0)
	for i := bins - 1; i >= 0; i-- {
		sum += uint32(h.Bins[i])
		o.above[i] = float32(sum) / sampleUnit
	}
	o.weight = float64(h.weight) / sampleUnit
	o.shift = -math.Log(mean + 0.5)
}

// mix returns the probability of at least n requests. The result is a weighted mean of the
// fallback's probability p and the share of samples with at least n requests. The argument `logN` is
// log n. This value is between log(n-1/2), which is recorded for n-1 requests, and log(n+1/2),
// which is recorded for n requests. mix assumes that the samples are spread evenly over a bin.
func (o *exceedance) mix(p, logN float64) float64 {
	place := (logN+o.shift)/binWidth + binsZero
	share := 0.0
	switch {
	case place <= 0:
		share = o.weight
	case place < bins:
		i := int(place)
		inside := place - float64(i)
		share = float64(o.above[i])*(1-inside) + float64(o.above[i+1])*inside
	}
	return (fallbackWeight*p + share) / (fallbackWeight + o.weight)
}
