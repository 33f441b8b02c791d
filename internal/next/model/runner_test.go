package model_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
	"poold/internal/next/pool"
)

// faultyConn loses requests and replies, or executes requests late.
type faultyConn struct {
	net.Conn
	n          *node
	drop, late atomic.Bool
}

func (c *faultyConn) Write(b []byte) (int, error) {
	c.n.thaw()
	if c.n.dead.Load() {
		_ = c.Conn.Close()
		return 0, io.ErrClosedPipe
	}
	x := rand.Float64()
	if c.n.m.calm.Load() {
		x = 1
	}
	switch {
	case x < 0.01:
		c.n.m.lost[0].Add(1)
		_ = c.Conn.Close()
		return 0, io.ErrClosedPipe
	case x < 0.02:
		c.n.m.lost[1].Add(1)
		c.drop.Store(true)
	case x < 0.03:
		c.n.m.lost[2].Add(1)
		c.late.Store(true)
		late := append([]byte{}, b...)
		go func() {
			time.Sleep(10*time.Millisecond + rand.N(150*time.Millisecond))
			_, _ = c.Conn.Write(late)
			time.Sleep(50 * time.Millisecond)
			_ = c.Conn.Close()
		}()
		return 0, io.ErrClosedPipe
	}
	return c.Conn.Write(b)
}

func (c *faultyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.drop.Load() {
		_ = c.Conn.Close()
		return 0, io.EOF
	}
	return n, err
}

func (c *faultyConn) Close() error {
	if c.late.Load() {
		return nil
	}
	return c.Conn.Close()
}

// service is the solving service.
type service struct {
	mu        sync.Mutex
	submitted map[string]int
	accepted  map[string]bool
	ready     map[string]time.Time
	open      []string // tasks under way
	most      int
	tasks     int
}

var (
	errRefused  = errors.New("refused")
	errBusy     = errors.New("busy")
	errUnsolved = errors.New("unsolvable")
	errPending  = errors.New("pending")
	errSilent   = errors.New("no answer")
)

func newService() *service {
	return &service{submitted: map[string]int{}, accepted: map[string]bool{}, ready: map[string]time.Time{}}
}

func (s *service) submit(order string) (string, error) {
	time.Sleep(rand.N(2 * time.Millisecond))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.submitted[order]++
	switch x := rand.Float64(); {
	case x < 0.01:
		return "", errRefused
	case x < 0.015:
		return "", errBusy
	}
	s.tasks++
	task := fmt.Sprint(s.tasks)
	s.accepted[order] = true
	s.ready[task] = time.Now().Add(8*time.Millisecond + rand.N(20*time.Millisecond))
	s.open = slices.DeleteFunc(append(s.open, task), func(other string) bool { return time.Now().After(s.ready[other]) })
	s.most = max(s.most, len(s.open))
	if rand.Float64() < 0.03 {
		return "", errSilent
	}
	return task, nil
}

func (s *service) poll(task string, id captcha.ID) (string, error) {
	time.Sleep(rand.N(2 * time.Millisecond))
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.ready[task]) {
		return "", errPending
	}
	if task[len(task)-1] == '7' {
		return "", errUnsolved
	}
	return string(id) + "." + task, nil
}

const orderLife = 600 * time.Millisecond

func (n *node) budgets() []pool.Budget { return []pool.Budget{{Scope: "all", PerDay: n.m.limit}} }

// refill decides for what is due and for what changed.
func (n *node) refill() {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	ids := make([]captcha.ID, len(n.m.targets))
	for i := range ids {
		ids[i] = n.m.targets[i].id
	}
	_ = n.pool.SetDue(n.ctx, ids)
	for {
		var due []captcha.ID
		mode := pool.Changed
		select {
		case <-n.ctx.Done():
			return
		case id := <-n.wake:
			due = append(due, id)
		case <-tick.C:
			due, _ = n.pool.Due(n.ctx, 100)
		}
		for _, id := range due {
			n.decide(id, mode)
		}
	}
}

func (n *node) decide(id captcha.ID, mode pool.Mode) {
	depth := 0
	for _, to := range n.m.targets {
		if to.id == id {
			depth = to.depth
		}
	}
	if n.m.idle.Load() {
		return
	}
	c, err := n.pool.Decide(n.ctx, mode, pool.Query{ID: id, Margin: margin, Lead: 20 * time.Millisecond, Want: depth, Period: time.Second})
	if err != nil || n.at() {
		return
	}
	for range min(20, depth+c.Waiting-c.Outliving-c.Orders) {
		o := &pool.Order{
			Name: fmt.Sprintf("%x", rand.Uint64()), ID: id, Account: "main", Key: "k", Life: orderLife, Concurrency: concurrency, Depth: depth,
			Horizon: margin + 20*time.Millisecond, Price: 1, Budgets: n.budgets(),
		}
		n.run(o.Name)
		_, next, err := n.pool.Place(n.ctx, o)
		if next != "" {
			n.changed(next)
		}
		if err != nil {
			n.ran(o.Name)
			return
		}
		n.work.Go(func() { n.carry(o, pool.Placed, "", time.Now()) })
	}
}

func (n *node) run(order string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	is := n.runs[order]
	n.runs[order] = true
	return !is
}

func (n *node) ran(order string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.runs, order)
}

// carry carries an order from a state to its end.
func (n *node) carry(o *pool.Order, state pool.State, task string, placed time.Time) {
	defer n.ran(o.Name)
	ctx, stop := context.WithDeadline(context.WithoutCancel(n.ctx), placed.Add(orderLife+2*time.Second))
	defer stop()
	if state == pool.Placed {
		if n.at() {
			return
		}
		may, err := n.pool.Begin(ctx, o.Name, o.Name)
		if err != nil || !may || n.at() {
			return
		}
		task, err = n.m.service.submit(o.Name)
		if n.at() {
			return
		}
		switch {
		case errors.Is(err, errRefused):
			n.end(ctx, o, &pool.End{How: pool.Fault, Reason: "refused"}) // an end without a brake, for speed
			return
		case errors.Is(err, errBusy):
			n.end(ctx, o, &pool.End{How: pool.Stopped, Reason: "busy"})
			return
		}
		if result, err := n.pool.Bought(ctx, o, task, "{}"); err != nil || result != "ok" || task == "" || n.at() {
			return
		}
	} else if state == pool.Submitting {
		_, _ = n.pool.Bought(ctx, o, "", "{}")
		return
	}
	unsolved := time.Since(placed)
	for {
		asked := time.Since(placed)
		token, err := n.m.service.poll(task, o.ID)
		if n.at() {
			return
		}
		switch {
		case err == nil:
			n.end(ctx, o, &pool.End{How: pool.Solved, Provider: "main", Value: token, Task: task, Born: unsolved, Lifetime: lifetime, Margin: margin, Lead: time.Since(placed)})
			return
		case errors.Is(err, errUnsolved):
			n.end(ctx, o, &pool.End{How: pool.Failed, Reason: err.Error(), Answer: &pool.FailedError{Reason: "unsolvable"}})
			return
		}
		unsolved = asked
		if ctx.Err() != nil {
			return
		}
		time.Sleep(3 * time.Millisecond)
	}
}

func (n *node) end(ctx context.Context, o *pool.Order, e *pool.End) {
	e.Row = "{}"
	if _, next, err := n.pool.End(ctx, o, e); err == nil && next != "" {
		n.changed(next)
	}
	n.at()
}

// beaten resumes the orders that this replica owns and does not run, and ends late ones.
func (n *node) beaten(owned int, late []string) {
	n.mu.Lock()
	running := len(n.runs)
	n.mu.Unlock()
	if owned > running {
		orders, _ := n.pool.Owned(n.ctx)
		for _, order := range orders {
			if !n.run(order) {
				continue
			}
			e, is, err := n.pool.Find(n.ctx, order)
			if err != nil || !is || e.State == pool.Unknown {
				n.ran(order)
				continue
			}
			o := e.Order
			o.Key, o.Budgets = "k", n.budgets()
			if e.State == pool.Placed {
				n.end(n.ctx, &o, &pool.End{How: pool.Stopped})
				n.ran(order)
				continue
			}
			n.work.Go(func() { n.carry(&o, e.State, e.Task, time.Now().Add(-e.Age)) })
		}
	}
	for _, order := range late {
		e, is, err := n.pool.Find(n.ctx, order)
		switch {
		case err != nil:
		case !is:
			_ = n.pool.Drop(n.ctx, order)
		default:
			o := e.Order
			o.Key, o.Budgets = "k", n.budgets()
			n.end(n.ctx, &o, &pool.End{How: pool.Late, Anyone: true, Reason: "late"})
		}
	}
}
