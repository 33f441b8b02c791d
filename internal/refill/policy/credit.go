package policy

import "math"

const (
	// A new target may waste creditLeast tokens, or creditMisses misses' worth,
	// before its requests have earned any; creditTimes that is the most saved up.
	creditLeast  = 10.0
	creditMisses = 5.0
	creditTimes  = 16.0
	// A hit earns max_waste, a miss this part of it: who never finds a token pays at
	// most so much more than for buying nothing.
	missEarns = 0.05
)

// credit is how many tokens may still be wasted: requests earn it, expiries use it up.
// Times are in unix seconds.
type credit struct {
	price float64 // max_waste
	left  float64 // tokens; in debt below 0
	// hits are tokens handed out at once, decayed with countDecay, as of hit; not saved.
	hits, hit float64
	// What the floor costs by itself is not charged: free expiries are still its own,
	// as of freeAt; not saved.
	free, freeAt float64
}

// newCredit is that of a new target.
func newCredit(price float64) credit {
	c := credit{price: price}
	c.left = c.start()
	return c
}

func (c *credit) start() float64 { return max(creditLeast, creditMisses*c.price) }

func (c *credit) most() float64 { return creditTimes * c.start() }

// lowest is the deepest debt where at most so many tokens are held: what expires after
// the credit is used up, all that was held then, is paid back.
func (c *credit) lowest(held int) float64 { return -max(c.most(), float64(held)) }

// reprice is for another max_waste.
func (c *credit) reprice(price float64) {
	c.price = price
	c.left = min(c.left, c.most())
}

// earn adds what a request earns.
func (c *credit) earn(now, scale float64, hit bool) {
	earned := missEarns * c.price
	if hit {
		earned = c.price
		c.hits = c.hitsAt(now, scale) + 1
		c.hit = now
	}
	c.left = min(c.left+earned, c.most())
}

// hitsAt is the decayed count of hits.
func (c *credit) hitsAt(now, scale float64) float64 { return decayed(c.hits, now-c.hit, scale) }

// affordable is how many tokens may be held: should all of them expire, the credit
// pays for those beyond what was used of late.
func (c *credit) affordable(now, scale float64) int { return int(max(0, c.left+c.hitsAt(now, scale))) }

// accrue brings free up to date: floor tokens were kept since the last time, and each
// is replaced once in cycle seconds.
func (c *credit) accrue(now float64, floor int, cycle float64) {
	since := max(0, now-c.freeAt)
	c.freeAt = now
	if cycle > 0 {
		kept := float64(floor)
		c.free = max(c.free, min(c.free+kept*since/cycle, kept))
	}
}

// charge uses it up for n expiries, of a target that holds at most so many tokens. Those
// that the floor costs anyway, about as many as it holds in each usable life, are free:
// otherwise keeping a few tokens for nobody would end the buying for those who do ask.
func (c *credit) charge(n, held int) {
	free := min(float64(n), math.Floor(c.free))
	c.free -= free
	c.left = max(c.left-(float64(n)-free), c.lowest(held))
}
