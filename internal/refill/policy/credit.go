package policy

import "math"

const (
	// A new target may waste creditLeast tokens, or creditMisses times max_waste if that is more. The
	// credit never exceeds this initial credit multiplied by creditTimes.
	creditLeast  = 10.0
	creditMisses = 5.0
	creditTimes  = 16.0
	// A hit earns max_waste. A miss earns only missEarns times max_waste. Otherwise a demand that
	// never finds a ready token could waste too many tokens.
	missEarns = 0.05
)

// credit counts how many tokens may still be wasted. Requests earn credit, and expired tokens use it
// up. Times are in Unix seconds.
type credit struct {
	price float64 // max_waste
	left  float64 // tokens; a negative value is a debt
	// hits is the number of tokens handed out without a wait, decayed with countDecay. The field hit
	// is the time of the last update of hits. Neither field is saved.
	hits, hit float64
	// free is the number of expiries that still cost no credit, because the floor alone causes them.
	// The field freeAt is the time of the last update of free. Neither field is saved.
	free, freeAt float64
}

func newCredit(price float64) credit {
	c := credit{price: price}
	c.left = c.start()
	return c
}

func (c *credit) start() float64 { return max(creditLeast, creditMisses*c.price) }

func (c *credit) most() float64 { return creditTimes * c.start() }

// deepestDebt returns the lowest possible credit of a target. The argument held is the maximum
// number of tokens that the target holds. After the credit is used up, all of them may still
// expire.
func (c *credit) deepestDebt(held int) float64 { return -max(c.most(), float64(held)) }

func (c *credit) reprice(price float64) {
	c.price = price
	c.left = min(c.left, c.most())
}

func (c *credit) earn(now, scale float64, hit bool) {
	earned := missEarns * c.price
	if hit {
		earned = c.price
		c.hits = c.hitsAt(now, scale) + 1
		c.hit = now
	}
	c.left = min(c.left+earned, c.most())
}

func (c *credit) hitsAt(now, scale float64) float64 { return decayed(c.hits, now-c.hit, scale) }

// affordable returns how many tokens may be kept. The number is the credit plus the
// number of recent hits, because requests will soon use about as many tokens as in the recent past.
func (c *credit) affordable(now, scale float64) int { return int(max(0, c.left+c.hitsAt(now, scale))) }

// accrue updates the field free. The argument floor is the number of tokens kept since the last
// call. Each of these tokens is replaced once in cycle seconds.
func (c *credit) accrue(now float64, floor int, cycle float64) {
	since := max(0, now-c.freeAt)
	c.freeAt = now
	if cycle > 0 {
		kept := float64(floor)
		c.free = max(c.free, min(c.free+kept*since/cycle, kept))
	}
}

// charge subtracts n expired tokens from the credit. The argument held is as in
// deepestDebt. Expiries that the floor alone causes are free. Otherwise the credit would be used up
// by keeping a few tokens without demand.
func (c *credit) charge(n, held int) {
	free := min(float64(n), math.Floor(c.free))
	c.free -= free
	c.left = max(c.left-(float64(n)-free), c.deepestDebt(held))
}
