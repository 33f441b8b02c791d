package purchase

import "sync"

// letterCounts counts the files of a box as this process knows them. The zero
// value counts none. It is safe for concurrent use.
type letterCounts struct {
	mu      sync.Mutex
	letters int    // to be replayed; below 0 while one is removed that is not counted yet
	bad     int    // set aside
	storing int    // being written; each takes the room of a letter
	changes uint64 // of the three above
}

// letterListing is what was known before a listing.
type letterListing struct {
	changes uint64
	quiet   bool // nobody was writing
}

// now is how many letters there are, and bad files.
func (c *letterCounts) now() (letters, bad int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(0, c.letters), max(0, c.bad)
}

// begin is called before a listing, correct after it.
func (c *letterCounts) begin() letterListing {
	c.mu.Lock()
	defer c.mu.Unlock()
	return letterListing{c.changes, c.storing == 0}
}

// correct takes over what a listing found, unless it may be older than what is
// counted already.
func (c *letterCounts) correct(before letterListing, letters, bad int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before.quiet && before.changes == c.changes {
		c.letters, c.bad = letters, bad
	}
}

// moved notes files that went or were set aside.
func (c *letterCounts) moved(letters, bad int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.letters += letters
	c.bad += bad
	c.changes++
}

// reserve makes room for one letter where there are fewer than most; stored must
// follow where it says true.
func (c *letterCounts) reserve(most int) bool {
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
func (c *letterCounts) stored(placed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.storing--
	c.changes++
	if placed {
		c.letters++
	}
}
