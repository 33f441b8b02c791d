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
	// A replica sends heartbeats at intervals of heartbeatEvery. A heartbeat is valid for
	// heartbeatLife. If a replica dies, other replicas take over its targets at most heartbeatLife +
	// heartbeatEvery + takeOver after its last heartbeat.
	heartbeatEvery = time.Second
	heartbeatLife  = 2500 * time.Millisecond
	// takeOver is the time over which the first looks at a dead replica's targets are spread.
	takeOver = 500 * time.Millisecond
	// If the looker of a replica is blocked for longer than hangsAfter, the replica sends no more
	// heartbeats.
	hangsAfter = time.Second
	// If a worker has had no turn for longer than the constant absence, the worker loads the learned
	// state again, because the watching replica may have saved a newer state.
	absence = 30 * time.Second
	// If only the figures in a status have changed, the status is shared at most once per shareEvery.
	// Any other change is shared immediately. An unchanged status is shared again at intervals of
	// sharedAgain, so that the shared copy does not expire in Redis.
	shareEvery  = 2 * time.Second
	sharedAgain = 30 * time.Minute
	// sharedFor is how long another replica's status stays valid after the read.
	sharedFor = 20 * time.Second
	// currentFor is the minimum time between two reads of a status by Manager.Current.
	currentFor = time.Second
)

// Replicas is the interface for sharing state between the daemons that have the same stock.
// *pool.Replicas implements it.
type Replicas interface {
	// Heartbeat announces that this replica is alive for the given time. Heartbeat returns the live
	// replicas, including this one.
	Heartbeat(ctx context.Context, life time.Duration) (self string, live []string, err error)
	// Leave announces that this replica stops.
	Leave(ctx context.Context) error
	// Share stores an identity's status for the other replicas. Shared returns the last stored status
	// of each identity.
	Share(ctx context.Context, id captcha.ID, status []byte) error
	Shared(ctx context.Context, ids []captcha.ID) ([][]byte, error)
}

// division divides the identities among the live replicas. A replica watches its share of the
// identities: it looks at them even without a wake-up. A division is immutable.
type division struct {
	self string
	live []string
}

// undivided reports whether this replica watches all identities because it knows no other live
// replica.
func (w *division) undivided() bool { return len(w.live) < 2 || !slices.Contains(w.live, w.self) }

// only reports whether this replica is certainly the single live replica.
func (w *division) only() bool { return len(w.live) == 1 && w.live[0] == w.self }

// watches reports whether this replica watches the identity. For each identity, each replica's name
// is hashed together with the identity, and the replica with the highest hash watches it (rendezvous
// hashing).
func (w *division) watches(id captcha.ID) bool {
	if w.undivided() {
		return true
	}
	return w.self == slices.MaxFunc(w.live, func(a, b string) int { return cmp.Compare(weight(a, id), weight(b, id)) })
}

func weight(replica string, id captcha.ID) uint64 {
	sum := sha256.Sum256([]byte(replica + " " + string(id)))
	return binary.BigEndian.Uint64(sum[:])
}

// keepWatching keeps the division up to date until ctx ends. Then keepWatching announces that this
// replica leaves.
func (m *Manager) keepWatching(ctx context.Context) {
	ticker := time.NewTicker(heartbeatEvery)
	defer ticker.Stop()
	answered, hung := time.Now(), false
	for ctx.Err() == nil {
		if m.looker.hangs() {
			if !hung {
				m.log.Warn("looks at the stock hang; other replicas take over the targets of this one")
			}
			hung = true
		} else if self, live, err := m.replicas.Heartbeat(ctx, heartbeatLife); err == nil {
			// During a gap in the heartbeats, other replicas may have watched this replica's
			// targets.
			m.looker.divide(&division{self: self, live: live}, time.Since(answered) > heartbeatLife)
			answered, hung = time.Now(), false
		} else if time.Since(answered) > heartbeatLife {
			m.looker.divide(&division{}, false) // the live replicas are unknown
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	ended, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveLimit)
	defer cancel()
	if err := m.replicas.Leave(ended); err != nil {
		m.log.Debug("announcing the stop to other replicas failed", "err", err)
	}
}

// Live returns the sorted names of the live replicas, including this one. The result is nil if they
// are unknown. Live does not block.
func (m *Manager) Live() []string {
	d := m.looker.division.Load()
	if !slices.Contains(d.live, d.self) {
		return nil
	}
	return d.live
}

// LastTurn returns when the loop that looks at the targets began its last iteration; the result is
// zero before the first one. The loop turns several times a second, also without Redis. If it does
// not, the process hangs, and only a restart helps. LastTurn does not block.
func (m *Manager) LastTurn() time.Time { return m.looker.lastTurn() }

// If this replica watches a target, share publishes the target's status for the other replicas.
func (l *looker) share(w *worker) {
	division := l.division.Load()
	if division.undivided() || !w.watched.Load() {
		return
	}
	at, now := time.Now(), w.status.snapshot()
	// After a change of the division, another replica may have shared a status of the target.
	urgent := division != w.sharedIn || !reflect.DeepEqual(withoutFigures(now), withoutFigures(w.shared))
	since := at.Sub(w.sharedAt)
	if !urgent && (since < shareEvery || since < sharedAgain && reflect.DeepEqual(now, w.shared)) {
		return
	}
	text, err := json.Marshal(now)
	if err == nil {
		limited, cancel := context.WithTimeout(w.ctx, saveLimit)
		defer cancel()
		err = l.replicas.Share(limited, w.target.ID, text)
	}
	if err != nil {
		w.log.Debug("sharing the target's status failed", "err", err)
		return
	}
	w.shared, w.sharedAt, w.sharedIn = now, at, division
}

// withoutFigures returns a status without the figures that change at every look.
func withoutFigures(s Status) Status {
	s.Lead, s.Forecast, s.Risk, s.Credit, s.Failures = 0, 0, 0, 0, nil
	return s
}

// Refresh reads the statuses of all targets that other replicas watch.
func (m *Manager) Refresh(ctx context.Context) error {
	var workers []*worker
	var ids []captcha.ID
	for id, w := range m.workers.Load().byID {
		if !w.watched.Load() {
			workers, ids = append(workers, w), append(ids, id)
		}
	}
	return m.refresh(ctx, workers, ids)
}

// Current returns the status of a target, for the answer to a caller that gets no token. If another
// replica watches the target, Current first reads the status from Redis, but at most once per
// currentFor.
func (m *Manager) Current(ctx context.Context, name string) (Status, bool) {
	w := m.workers.Load().byName[name]
	if w == nil {
		return Status{}, false
	}
	now, last := time.Now().UnixNano(), w.refreshed.Load()
	if !w.watched.Load() && now-last >= int64(currentFor) && w.refreshed.CompareAndSwap(last, now) {
		if err := m.refresh(ctx, []*worker{w}, []captcha.ID{w.target.ID}); err != nil {
			w.log.Debug("reading the status of another replica failed", "err", err)
		}
	}
	return w.visibleStatus(), true
}

func (m *Manager) refresh(ctx context.Context, workers []*worker, ids []captcha.ID) error {
	at := time.Now()
	texts, err := m.replicas.Shared(ctx, ids)
	if err != nil {
		return err
	}
	for i, w := range workers {
		s := sharedStatus{at: at}
		if texts[i] != nil && json.Unmarshal(texts[i], &s.Status) == nil {
			w.remote.Store(&s)
		}
	}
	return nil
}

// sharedStatus is a status that another replica shared, with the time at which this replica read
// it.
type sharedStatus struct {
	Status
	at time.Time
}

// visibleStatus returns the target's status from the watching replica. If this replica has a
// problem other than failing orders, visibleStatus returns this replica's own status instead. A
// replica knows only the failures of its own orders. If this replica has a more recent failure than
// the watching replica, the result contains this replica's list of failures.
func (w *worker) visibleStatus() Status {
	own := w.status.snapshot()
	if s := w.remote.Load(); s != nil && time.Since(s.at) < sharedFor && !w.watched.Load() && (own.State == OK || own.Failing) {
		shown := s.Status
		if len(own.Failures) > 0 && (len(shown.Failures) == 0 || own.Failures[0].At.After(shown.Failures[0].At)) {
			shown.Failures = own.Failures
		}
		return shown
	}
	return own
}
