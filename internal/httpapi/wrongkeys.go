package httpapi

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/labstack/echo/v4/middleware"
	"golang.org/x/time/rate"
)

// RetryWrong is the interval in which a sender of wrong keys, or of reports on unknown tokens, may
// try again after triesAMinute such requests.
const RetryWrong = time.Minute / triesAMinute

const triesAMinute = 20

// Tries counts events per sender, and forgets senders without recent ones.
type Tries struct {
	store *middleware.RateLimiterMemoryStore
}

// NewTries returns Tries that allow each sender a burst of events, and then one per interval.
func NewTries(burst int, interval time.Duration) Tries {
	return Tries{middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
		Rate: rate.Every(interval), Burst: burst, ExpiresIn: time.Duration(burst) * interval,
	})}
}

// Allow counts an event of a sender, and reports whether the sender is within the limit.
func (t Tries) Allow(sender string) bool {
	allowed, _ := t.store.Allow(sender) // this store never fails
	return allowed
}

// WrongKeys slows and logs wrong keys, which are keys that the configuration file lacks. Requests
// with right keys are not affected.
type WrongKeys struct {
	tries, logged Tries
	log           *slog.Logger
}

// NewWrongKeys returns WrongKeys that logs each address at most once a minute.
func NewWrongKeys(log *slog.Logger) *WrongKeys {
	return &WrongKeys{NewTries(triesAMinute, RetryWrong), NewTries(1, time.Minute), log}
}

// Allow counts a wrong key. It returns false if too many came from the address of the request.
func (w *WrongKeys) Allow(c *Context) bool {
	address := c.RealIP()
	if w.logged.Allow(address) {
		w.log.WarnContext(c.Ctx(), "the configuration file does not have a caller's key; correct the key of this caller",
			slog.String("address", address), slog.String("route", c.Path()))
	}
	// One host may use all addresses of an IPv6 network.
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() && !ip.Is4In6() {
		network, _ := ip.Prefix(64)
		address = network.String()
	}
	return w.tries.Allow(address)
}
