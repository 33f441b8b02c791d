package refill

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"poold/internal/captcha"
)

const (
	// A replica says each beatEvery that it lives, for beatLasts. What a dead one
	// watched is looked at by another at the latest beatLasts + beatEvery + takeOver
	// after its last word.
	beatEvery = time.Second
	beatLasts = 2500 * time.Millisecond
	// takeOver spreads the first looks at what a dead replica watched.
	takeOver = 500 * time.Millisecond
	// A looker that has done nothing for hangsAfter hangs, and its replica says no more
	// that it lives.
	hangsAfter = time.Second
	// absence is how long a worker of a target that another replica watches rests
	// until it takes over what that one has learned.
	absence = 30 * time.Second
	// A status that changed in its running figures alone is shared this often at most, and one
	// that has not changed once in sharedAgain, before the stock forgets it.
	shareEvery  = 2 * time.Second
	sharedAgain = 30 * time.Minute
	// saidFor is how long what another replica said is believed without being read again.
	saidFor = 20 * time.Second
	// Current reads what another replica said again after currentFor, whether it could be
	// read then or not.
	currentFor = time.Second
)

// Replicas are the daemons that work on the same stock; *pool.Replicas implements it.
type Replicas interface {
	// Beat says that this one lives for so long, and lists all that live, itself too.
	Beat(ctx context.Context, lasts time.Duration) (self string, live []string, err error)
	// End says that this one lives no more.
	End(ctx context.Context) error
	// Share keeps what this one says of an identity; Shared is what was said last.
	Share(ctx context.Context, id captcha.ID, status []byte) error
	Shared(ctx context.Context, ids []captcha.ID) ([][]byte, error)
}

// watch says which identities this replica watches: it looks at those although nobody
// kicked. The others watch the rest. It is never changed.
type watch struct {
	self string
	live []string
}

// undivided reports whether this replica watches all identities: it knows of no other that lives.
func (w *watch) undivided() bool { return len(w.live) < 2 || !slices.Contains(w.live, w.self) }

// only reports whether it is known that no other replica lives.
func (w *watch) only() bool { return len(w.live) == 1 && w.live[0] == w.self }

// mine reports whether this replica watches the identity: of those that live, the one
// whose name and the identity together have the highest hash (rendezvous hashing).
func (w *watch) mine(id captcha.ID) bool {
	if w.undivided() {
		return true
	}
	return w.self == slices.MaxFunc(w.live, func(a, b string) int { return cmp.Compare(weight(a, id), weight(b, id)) })
}

func weight(replica string, id captcha.ID) uint64 {
	sum := sha256.Sum256([]byte(replica + " " + string(id)))
	return binary.BigEndian.Uint64(sum[:])
}

// keepWatching divides the identities with the other replicas until ctx ends, and then
// leaves them to those.
func (m *Manager) keepWatching(ctx context.Context) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	answered := time.Now()
	for ctx.Err() == nil {
		if m.looker.hangs() {
			m.log.Warn("looking at the stock hangs; other replicas take over what is watched here")
		} else if self, live, err := m.replicas.Beat(ctx, beatLasts); err == nil {
			answered = time.Now()
			m.looker.divide(&watch{self: self, live: live})
		} else if time.Since(answered) > beatLasts {
			m.looker.divide(&watch{}) // who else lives is not known
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveLimit)
	defer cancel()
	if err := m.replicas.End(ended); err != nil {
		m.log.Debug("other replicas are not told of the end", "err", err)
	}
}

// share tells the other replicas how a target does that is watched here.
func (l *looker) share(h *handle) {
	if l.watch.Load().undivided() || !h.watched.Load() {
		return
	}
	at, now := time.Now(), h.status.snapshot()
	urgent := !reflect.DeepEqual(withoutFigures(now), withoutFigures(h.shared))
	since := at.Sub(h.sharedAt)
	if !urgent && (since < shareEvery || since < sharedAgain && reflect.DeepEqual(now, h.shared)) {
		return
	}
	text, err := json.Marshal(now)
	if err == nil {
		limited, cancel := context.WithTimeout(h.ctx, saveLimit)
		defer cancel()
		err = l.replicas.Share(limited, h.target.ID, text)
	}
	if err != nil {
		h.log.Debug("other replicas are not told how the target does", "err", err)
		return
	}
	h.shared, h.sharedAt = now, at
}

// withoutFigures is a status without what changes all the time.
func withoutFigures(s Status) Status {
	s.Lead, s.Forecast, s.Risk, s.Credit, s.Failures, s.Shadow = 0, 0, 0, 0, nil, nil
	return s
}

// Refresh learns how the targets do that other replicas watch.
func (m *Manager) Refresh(ctx context.Context) error {
	var handles []*handle
	var ids []captcha.ID
	for id, h := range m.workers.Load().byID {
		if !h.watched.Load() {
			handles, ids = append(handles, h), append(ids, id)
		}
	}
	return m.refresh(ctx, handles, ids)
}

// Current is Status for a caller that gets no token: it first reads what another replica
// says of the target, unless a caller has done so within currentFor.
func (m *Manager) Current(ctx context.Context, name string) (Status, bool) {
	h := m.workers.Load().byName[name]
	if h == nil {
		return Status{}, false
	}
	now, last := time.Now().UnixNano(), h.asked.Load()
	if !h.watched.Load() && now-last >= int64(currentFor) && h.asked.CompareAndSwap(last, now) {
		if err := m.refresh(ctx, []*handle{h}, []captcha.ID{h.target.ID}); err != nil {
			h.log.Debug("what other replicas say is not known", "err", err)
		}
	}
	return h.shown(), true
}

// refresh reads what other replicas say of these targets.
func (m *Manager) refresh(ctx context.Context, handles []*handle, ids []captcha.ID) error {
	at := time.Now()
	texts, err := m.replicas.Shared(ctx, ids)
	if err != nil {
		return err
	}
	for i, h := range handles {
		s := said{at: at}
		if texts[i] != nil && json.Unmarshal(texts[i], &s.Status) == nil {
			h.elsewhere.Store(&s)
		}
	}
	return nil
}

// said is a status that another replica shared, as it was read.
type said struct {
	Status
	at time.Time
}

// shown is how a target does: as the replica says that watches it, unless this one
// has something of its own to say of it. That its orders fail is known to all. Of failures each knows those of its own orders: the later ones are shown.
func (h *handle) shown() Status {
	own := h.status.snapshot()
	if s := h.elsewhere.Load(); s != nil && time.Since(s.at) < saidFor && !h.watched.Load() && (own.State == OK || own.Failing) {
		shown := s.Status
		if len(own.Failures) > 0 && (len(shown.Failures) == 0 || own.Failures[0].At.After(shown.Failures[0].At)) {
			shown.Failures = own.Failures
		}
		return shown
	}
	return own
}
