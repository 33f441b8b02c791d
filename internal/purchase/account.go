package purchase

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
)

const (
	// formerFor is how long a provider that went is remembered: longer than any
	// task of it can be under way.
	formerFor = 26 * time.Hour
	// strandedFor is how long an order that nobody could be asked about is told
	// without being found again: by then another replica sees to it.
	strandedFor = 2 * pool.Lease
)

// Account names an account at a service, whatever the file calls it: who has the
// same API, address and key can be asked about its tasks. It is kept in Redis, so
// it is too short to tell a key from the many others that it would fit.
func Account(api, url string, key captcha.Secret) string {
	mac := hmac.New(sha256.New, []byte(key.Reveal()))
	_, _ = mac.Write([]byte("poold account\x00" + api + "\x00" + strings.TrimRight(url, "/")))
	return hex.EncodeToString(mac.Sum(nil)[:6])
}

// seeOffLocked remembers the sellers of the old list that are not in the new one.
// Of one account the last is enough, none where the list has it. The caller holds
// mu.
func (d *Desk) seeOffLocked(old []*seller, at time.Time) {
	for _, s := range old {
		if !slices.Contains(d.sellers, s) {
			s.went = at
			d.former = append([]*seller{s}, d.former...)
		}
	}
	var seen []string
	for _, s := range d.sellers {
		seen = append(seen, s.account)
	}
	d.former = slices.DeleteFunc(d.former, func(s *seller) bool {
		known := s.account == "" || slices.Contains(seen, s.account)
		seen = append(seen, s.account)
		return known || at.Sub(s.went) > formerFor
	})
}

// askable finds who can be asked about an order that was placed under a name, at an
// account: who has that account, else who has the name, since its key may have been
// changed. nil is nobody.
func (d *Desk) askable(name, account string) *seller {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := slices.Concat(d.sellers, d.former)
	for _, fits := range []func(*seller) bool{
		func(s *seller) bool { return s.account == account && s.Name() == name },
		func(s *seller) bool { return s.account == account && account != "" },
		func(s *seller) bool { return s.Name() == name },
	} {
		if i := slices.IndexFunc(known, fits); i >= 0 {
			return known[i]
		}
	}
	return nil
}

// strandedOrder is a paid task that nobody can be asked about.
type strandedOrder struct {
	seen  time.Time
	until time.Time // it counts for so long
}

// Stranded are paid tasks under way that nobody can be asked about: no provider of
// the list has the account that they were placed at, nor their provider's name.
type Stranded struct {
	Provider string // the name under which they were placed
	Orders   int
	Until    time.Time // the last of them counts for so long
}

// Stranded lists them by provider.
func (d *Desk) Stranded() []Stranded {
	d.mu.Lock()
	defer d.mu.Unlock()
	byName := map[string]Stranded{}
	for p, o := range d.stranded {
		s := byName[p.provider]
		s.Provider, s.Orders = p.provider, s.Orders+1
		if o.until.After(s.Until) {
			s.Until = o.until
		}
		byName[p.provider] = s
	}
	list := make([]Stranded, 0, len(byName))
	for _, s := range byName {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Stranded) int { return strings.Compare(a.Provider, b.Provider) })
	return list
}

// strand leaves the orders of a name that nobody can be asked about to replicas
// that may know better, and tells of those that are new.
func (d *Desk) strand(ctx context.Context, name string, orders []pool.Record) {
	now, grew := time.Now(), false
	refs := make([]pool.Ref, 0, len(orders))
	d.mu.Lock()
	for _, r := range orders {
		p := place{name, r.Ref}
		_, known := d.stranded[p]
		grew = grew || !known
		d.stranded[p] = strandedOrder{seen: now, until: r.Until}
		refs = append(refs, r.Ref)
	}
	for p, o := range d.stranded {
		if p.provider == name && (now.Sub(o.seen) > strandedFor || !now.Before(o.until)) {
			delete(d.stranded, p)
		}
	}
	d.mu.Unlock()
	if len(refs) > 0 {
		_ = attempt(ctx, func(ctx context.Context) error { return d.stock.LetGo(ctx, refs) })
	}
	if !grew {
		return
	}
	for _, s := range d.Stranded() {
		if s.Provider == name {
			d.log.Error("paid tasks cannot be collected: no provider of the file has the account that they were placed at; they count until then, or until it is listed again",
				"provider", name, "orders", s.Orders, "until", s.Until.UTC().Truncate(time.Second))
		}
	}
}
