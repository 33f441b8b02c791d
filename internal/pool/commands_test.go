//go:build !race

package pool

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/redisdb/redistest"
)

// TestCosts guards the cost of each step in Redis, so that no change raises it unnoticed: the number
// of commands, including those in scripts, and the bytes that Redis reads and writes. A change that
// lowers a figure changes it here, too.
func TestCosts(t *testing.T) {
	address := redistest.Server(t)
	s := open(t, Options{Addresses: "redis://" + address, Prefix: "cost", Probe: time.Hour})
	const n = 50
	info := func(section, field string) (sum int) {
		for line := range strings.Lines(redistest.Do(t, address, "INFO", section)) {
			name, value, is := strings.Cut(strings.TrimSpace(line), field)
			if !is || strings.HasPrefix(name, "cmdstat_info") || strings.HasPrefix(name, "cmdstat_hello") || strings.HasPrefix(name, "cmdstat_client") {
				continue // of this function
			}
			value, _, _ = strings.Cut(value, ",")
			number, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			sum += number
		}
		return sum
	}
	time.Sleep(time.Second) // the store reads the settings of Redis once, at its start
	take := func(id captcha.ID, _ int) {
		if _, err := s.Take(t.Context(), Request{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	order := func(i int) string { return fmt.Sprintf("order%021d", i) }
	id := identity("costs")
	// The first call of each kind loads the script.
	for i := range 2 {
		place(t, s, id, order(n+i))
		land(t, s, id, order(n+i), 0, time.Hour)
	}
	take(id, 0)
	look(t, s, id)
	for _, c := range []struct {
		name        string
		do          func(id captcha.ID, i int)
		commands    int // for each call, rounded down
		read, wrote int // bytes for each call
	}{
		{"placing an order", func(id captcha.ID, i int) { place(t, s, id, order(i)) }, 27, 950, 133},
		{"a landing", func(id captcha.ID, i int) { land(t, s, id, order(i), 0, time.Hour) }, 37, 1137, 126},
		{"a look", func(id captcha.ID, _ int) { look(t, s, id) }, 47, 1064, 847},
		{"a take", take, 17, 574, 266},
	} {
		commands, read, wrote := info("commandstats", ":calls="), info("stats", "total_net_input_bytes:"), info("stats", "total_net_output_bytes:")
		for i := range n {
			c.do(id, i)
		}
		commands = (info("commandstats", ":calls=") - commands) / n
		read, wrote = (info("stats", "total_net_input_bytes:")-read)/n, (info("stats", "total_net_output_bytes:")-wrote)/n
		near := func(a, b int) bool { return 50*max(a-b, b-a) <= b } // the bytes of the requests of info are included
		if commands != c.commands || !near(read, c.read) || !near(wrote, c.wrote) {
			t.Errorf("%s costs %d commands, %d bytes read, %d bytes written; it was %d, %d, %d", c.name, commands, read, wrote, c.commands, c.read, c.wrote)
		}
	}
}
