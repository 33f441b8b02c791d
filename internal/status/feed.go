package status

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"poold/internal/panics"
	"poold/internal/strictjson"
)

const (
	// feedPace is the minimum interval between two editions.
	feedPace = 250 * time.Millisecond
	// After each edition a feed pauses for pauseFactor times the duration of the edition, but for at
	// most pauseMost. Readers of thousands of targets then do not keep Redis busy.
	pauseFactor = 4
	pauseMost   = 2 * time.Second
	// heartbeatEvery is the interval of editions while nothing changes. A heartbeat edition contains
	// only a new as_of.
	heartbeatEvery = 5 * time.Second
)

// These are the names of a feed's events.
const (
	EventStatus = "status" // Data is the complete document
	EventChange = "change" // Data contains the changed fields, and as_of
)

// Event is a server-sent event. Data is one line of JSON; it is read-only.
type Event struct {
	Name string
	Data []byte
}

// Feed sends the changes of the status to many readers. A Feed requests each snapshot once for all
// readers, and computes a change once for each view. While there are no readers, a Feed requests no
// snapshots. A Feed is safe for concurrent use.
type Feed struct {
	snapshots interface {
		Snapshot(ctx context.Context) *Snapshot
	}
	log    *slog.Logger
	wanted chan struct{} // wakes Run when a reader is added; capacity 1

	mu    sync.Mutex
	views map[viewKey]*view // views with readers
}

// NewFeed returns a Feed of the snapshots of a collector.
func NewFeed(c *Collector) *Feed {
	return &Feed{snapshots: c, log: c.Log, wanted: make(chan struct{}, 1), views: map[viewKey]*view{}}
}

// viewKey identifies a view.
type viewKey struct {
	name    string
	minutes bool // the targets have Hour.Minutes
}

// view is a part of the document, for the readers that may see this part.
type view struct {
	key     viewKey
	may     func(target string) bool // nil = all targets
	readers int                      // guarded by the Feed's mu
	current atomic.Pointer[edition]  // only Run replaces it
}

// edition is the content of a view at one time. An edition is immutable once it is published.
type edition struct {
	number   int64 // number of the edition in its view; 0 = no edition yet, only next is set
	at       time.Time
	document *Document
	members  map[string]json.RawMessage // fields of the document by name, without the targets
	change   []byte                     // JSON of the difference from the previous edition
	whole    func() []byte              // the document
	next     chan struct{}              // closed when a later edition is published
}

// Reader reads one view of a feed. A Reader belongs to one goroutine.
type Reader struct {
	feed  *Feed
	view  *view
	begun bool  // the reader has got a complete document
	last  int64 // number of the last edition that the reader got
}

// Follow adds a reader. The reader sees a target if the function `may` returns true for the name of
// the target. If the function is nil, the reader sees all targets. Readers that see the same
// targets must use the same name. If the argument minutes is false, the events lack Hour.Minutes of
// the targets. The caller must close the reader.
func (f *Feed) Follow(name string, may func(target string) bool, minutes bool) *Reader {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := viewKey{name, minutes}
	v := f.views[key]
	if v == nil {
		v = &view{key: key, may: may}
		v.current.Store(&edition{next: make(chan struct{})})
		f.views[key] = v
	}
	v.readers++
	select {
	case f.wanted <- struct{}{}:
	default:
	}
	return &Reader{feed: f, view: v}
}

// Close removes the reader from the feed.
func (r *Reader) Close() {
	r.feed.mu.Lock()
	defer r.feed.mu.Unlock()
	if r.view.readers--; r.view.readers == 0 {
		delete(r.feed.views, r.view.key)
	}
}

// Changed returns a channel that is closed once Event can return a new event.
func (r *Reader) Changed() <-chan struct{} {
	e := r.view.current.Load()
	if e.number == r.last {
		return e.next
	}
	return closed
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Event returns the next event: the complete document for the first event and after a missed
// edition, otherwise the change. Callers must first wait until the channel from Changed is closed.
func (r *Reader) Event() Event {
	e := r.view.current.Load()
	missed := !r.begun || e.number != r.last+1
	r.begun, r.last = true, e.number
	if !missed {
		return Event{Name: EventChange, Data: e.change}
	}
	return Event{Name: EventStatus, Data: e.whole()}
}

// Run makes editions while there are readers, until ctx ends. Run must be called at most once.
func (f *Feed) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.wanted:
		}
		for views := f.activeViews(); len(views) > 0; views = f.activeViews() {
			began := time.Now()
			_ = panics.Contain(f.log, panicMessage, func() {
				snapshot := f.snapshots.Snapshot(ctx)
				for _, v := range views {
					v.publish(snapshot)
				}
			})
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(min(max(feedPace, pauseFactor*time.Since(began)), pauseMost)):
			}
		}
	}
}

func (f *Feed) activeViews() []*view {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.views))
}

// publish makes an edition from a snapshot if the view has changed, or if the last edition is older
// than heartbeatEvery.
func (v *view) publish(s *Snapshot) {
	last, at := v.current.Load(), time.Now()
	if !v.key.minutes {
		s = s.WithoutMinutes()
	}
	document, whole := s.Document, s.JSON
	if v.may != nil {
		document = document.Part(v.may)
		whole = func() []byte { return strictjson.Encode(document) }
	}
	members := document.encodeFields()
	change := changedFields(last, members)
	targets, gone := changedTargets(last.document, document)
	if len(targets) > 0 {
		change["targets"] = targets
	}
	if len(gone) > 0 {
		change["gone"] = gone
	}
	if len(change) == 0 && at.Sub(last.at) < heartbeatEvery {
		return
	}
	change["as_of"] = members["as_of"]
	v.current.Store(&edition{
		number: last.number + 1, at: at, document: document, members: members, next: make(chan struct{}),
		change: strictjson.Encode(change),
		whole:  sync.OnceValue(func() []byte { return bytes.TrimSpace(whole()) }),
	})
	close(last.next)
}

// encodeFields encodes the fields of the document by name, without the targets.
func (d *Document) encodeFields() (members map[string]json.RawMessage) {
	head := *d
	head.Targets = nil
	_ = json.Unmarshal(strictjson.Encode(&head), &members) // the text is one JSON object
	delete(members, "targets")
	return members
}

// changedFields returns the fields that differ from the last edition, except as_of.
func changedFields(last *edition, members map[string]json.RawMessage) map[string]any {
	change := map[string]any{}
	for name, value := range members {
		if name != "as_of" && !bytes.Equal(value, last.members[name]) {
			change[name] = value
		}
	}
	return change
}

// changedTargets lists the targets that differ, and the names of the removed targets, both sorted
// by name. A different next_expiry_s alone is not a change, because a reader can compute the
// current value from the last value and its as_of.
func changedTargets(last, now *Document) (list []*Target, gone []string) {
	old := []Target{}
	if last != nil {
		old = last.Targets
	}
	for i := range now.Targets {
		t := &now.Targets[i]
		for len(old) > 0 && old[0].Name < t.Name {
			gone = append(gone, old[0].Name)
			old = old[1:]
		}
		known := len(old) > 0 && old[0].Name == t.Name
		if !known || !sameTarget(old[0], *t) {
			list = append(list, t)
		}
		if known {
			old = old[1:]
		}
	}
	for i := range old {
		gone = append(gone, old[i].Name)
	}
	return list, gone
}

func sameTarget(a, b Target) bool {
	if (a.NextExpiry == nil) != (b.NextExpiry == nil) {
		return false
	}
	a.NextExpiry, b.NextExpiry = nil, nil
	return reflect.DeepEqual(&a, &b)
}
