package status

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"poold/internal/panics"
)

const (
	// feedPace is the least between two editions: four a second at most.
	feedPace = 250 * time.Millisecond
	// A feed rests restFor times as long as its last snapshot took, restMost at most: to
	// watch thousands of targets must not keep Redis busy.
	restFor  = 4
	restMost = 2 * time.Second
	// beatEvery is when an edition comes although nothing changed: it says when that was
	// seen last.
	beatEvery = 5 * time.Second
)

// The names of a feed's events.
const (
	EventStatus = "status" // Data is the whole document
	EventChange = "change" // Data are the members that changed, and as_of
)

// Event is what a reader of a feed is told. Data is JSON in one line; it is not to be
// altered.
type Event struct {
	Name string
	Data []byte
}

// Feed tells many readers what changes in the status. It takes the snapshots for all of
// them, and finds a change once for all who may see the same targets. While nobody reads,
// it does nothing. Its methods may be used by many goroutines.
type Feed struct {
	snapshots interface {
		Snapshot(ctx context.Context) *Snapshot
	}
	log    *slog.Logger
	wanted chan struct{} // wakes Run when a reader has come; capacity 1

	mu    sync.Mutex
	views map[string]*view // those that somebody reads, by name
}

// NewFeed returns a Feed of a collector's snapshots.
func NewFeed(c *Collector) *Feed {
	return &Feed{snapshots: c, log: c.Log, wanted: make(chan struct{}, 1), views: map[string]*view{}}
}

// view is the part of the document that some readers may see.
type view struct {
	name    string
	may     func(target string) bool // nil = all of it
	readers int                      // guarded by the Feed's mu
	current atomic.Pointer[edition]  // replaced by Run alone
}

// edition is a view at one moment. It is not altered once it is published.
type edition struct {
	number   int64 // of the view; 0 = there was none yet, and the rest is empty
	at       time.Time
	document *Document
	members  map[string]json.RawMessage // of the document but the targets
	change   []byte                     // what the one before does not have
	whole    func() ([]byte, error)
	next     chan struct{} // closed when there is a later one
}

// Reader reads one view of a feed; it belongs to one goroutine.
type Reader struct {
	feed  *Feed
	view  *view
	begun bool  // it has the whole document
	last  int64 // number of the edition that it has
}

// Follow begins to read what somebody may see; may is nil for all of it. Who may see the
// same gives the same name. Close ends it.
func (f *Feed) Follow(name string, may func(target string) bool) *Reader {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := f.views[name]
	if v == nil {
		v = &view{name: name, may: may}
		v.current.Store(&edition{next: make(chan struct{})})
		f.views[name] = v
	}
	v.readers++
	select {
	case f.wanted <- struct{}{}:
	default: // it is to be woken already
	}
	return &Reader{feed: f, view: v}
}

// Close ends the reading.
func (r *Reader) Close() {
	r.feed.mu.Lock()
	defer r.feed.mu.Unlock()
	if r.view.readers--; r.view.readers == 0 {
		delete(r.feed.views, r.view.name)
	}
}

// News is closed when Event has something to tell.
func (r *Reader) News() <-chan struct{} {
	e := r.view.current.Load()
	if e.number == r.last {
		return e.next
	}
	return now
}

var now = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Event returns the next event: the whole document at first and for a reader who missed
// something, else what changed. It is to be called after News.
func (r *Reader) Event() (Event, error) {
	e := r.view.current.Load()
	missed := !r.begun || e.number != r.last+1
	r.begun, r.last = true, e.number
	if !missed {
		return Event{Name: EventChange, Data: e.change}, nil
	}
	whole, err := e.whole()
	return Event{Name: EventStatus, Data: whole}, err
}

// Run makes editions while somebody reads, until ctx ends. It may be called once.
func (f *Feed) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.wanted:
		}
		for views := f.read(); len(views) > 0; views = f.read() {
			began := time.Now()
			_ = panics.Contain(f.log, statusFault, func() {
				snapshot := f.snapshots.Snapshot(ctx)
				for _, v := range views {
					if v.publish(snapshot) != nil {
						return // publish has logged the cause
					}
				}
			})
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(min(max(feedPace, restFor*time.Since(began)), restMost)):
			}
		}
	}
}

// read lists the views that somebody reads.
func (f *Feed) read() []*view {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]*view, 0, len(f.views))
	for _, v := range f.views {
		list = append(list, v)
	}
	return list
}

// publish makes an edition of a snapshot, unless its readers would learn nothing new.
func (v *view) publish(s *Snapshot) error {
	last, at := v.current.Load(), time.Now()
	document, whole := s.Document, s.JSON
	if v.may != nil {
		document = document.Only(v.may)
		whole = func() ([]byte, error) { return json.Marshal(document) }
	}
	members, err := document.members()
	if err != nil {
		return err
	}
	change, is := changed(last, members)
	targets, gone := changedTargets(last.document, document)
	if len(targets) > 0 {
		change["targets"], is = targets, true
	}
	if len(gone) > 0 {
		change["gone"], is = gone, true
	}
	if !is && at.Sub(last.at) < beatEvery {
		return nil
	}
	next := edition{
		number: last.number + 1, at: at, document: document, members: members, next: make(chan struct{}),
		whole: sync.OnceValues(func() ([]byte, error) { body, err := whole(); return bytes.TrimSpace(body), err }),
	}
	if next.change, err = json.Marshal(change); err != nil {
		return fmt.Errorf("encoding a change of the status: %w", err)
	}
	v.current.Store(&next)
	close(last.next)
	return nil
}

// members encodes what the document has beside its targets, by name.
func (d *Document) members() (map[string]json.RawMessage, error) {
	head := *d
	head.Targets = nil
	text, err := json.Marshal(&head)
	var members map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(text, &members)
	}
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	delete(members, "targets")
	return members, nil
}

// changed lists the members that are not as they were, and as_of in any case, which alone
// is no news.
func changed(last *edition, members map[string]json.RawMessage) (change map[string]any, is bool) {
	change = map[string]any{"as_of": members["as_of"]}
	for name, value := range members {
		if name != "as_of" && !bytes.Equal(value, last.members[name]) {
			change[name], is = value, true
		}
	}
	return change, is
}

// changedTargets lists the targets that are not as they were, and the names of those that
// are gone. Both lists are sorted by name. That time goes by is no change: next_expiry_s
// alone is as of the as_of of the event that told it.
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
		if len(old) == 0 || old[0].Name != t.Name {
			list = append(list, t)
			continue
		}
		if !sameTarget(old[0], *t) {
			list = append(list, t)
		}
		old = old[1:]
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
