package spool

import "sync"

// counts are the files of a spool as this process knows them. The zero value counts
// none. It is safe for concurrent use.
type counts struct {
	mu      sync.Mutex
	letters int    // below 0 while one is removed that is not counted yet
	bad     int    // set aside
	storing int    // being written; each takes the room of a letter
	changes uint64 // of the three above
}

// listing is what was known before a listing.
type listing struct {
	changes uint64
	quiet   bool // nobody was writing
}

// now is how many letters there are, and bad files.
func (c *counts) now() (letters, bad int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(0, c.letters), max(0, c.bad)
}

// begin is called before a listing, correct after it.
func (c *counts) begin() listing {
	c.mu.Lock()
	defer c.mu.Unlock()
	return listing{c.changes, c.storing == 0}
}

// correct takes over what a listing found, unless it may be older than what is
// counted already.
func (c *counts) correct(before listing, letters, bad int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before.quiet && before.changes == c.changes {
		c.letters, c.bad = letters, bad
	}
}

// moved notes files that went or were set aside.
func (c *counts) moved(letters, bad int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.letters += letters
	c.bad += bad
	c.changes++
}

// reserve makes room for one letter where there are fewer than most; stored must
// follow where it says true.
func (c *counts) reserve(most int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.letters+c.storing >= most {
		return false
	}
	c.storing++
	c.changes++
	return true
}

// stored ends what reserve began; placed tells whether the file is there.
func (c *counts) stored(placed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.storing--
	c.changes++
	if placed {
		c.letters++
	}
}
