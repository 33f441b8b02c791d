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
	"poold/internal/provider"
)

// faultyConn loses requests and replies, or executes requests late.
type faultyConn struct {
	net.Conn
	n          *node
	drop, late atomic.Bool
}

func (c *faultyConn) Write(b []byte) (int, error) {
	c.n.at()
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
	submits   int // answered or not
	accepted  int
	tasks     int
	collected map[string]bool // tasks whose outcome was sent
	ready     map[string]time.Time
	sitekeys  map[string]string
	open      []string // tasks under way
	most      int
}

func newService() *service {
	return &service{collected: map[string]bool{}, ready: map[string]time.Time{}, sitekeys: map[string]string{}}
}

// door is a replica's way to the service; it implements purchase.Seller.
type door struct{ n *node }

const orderLife = 600 * time.Millisecond

func (d *door) Name() string           { return "main" }
func (d *door) Timeout() time.Duration { return orderLife }
func (d *door) Pace(captcha.Type) (time.Duration, time.Duration) {
	return 5 * time.Millisecond, 3 * time.Millisecond
}
func (d *door) Report(context.Context, string, captcha.Type, bool) error { return nil }
func (d *door) ReportWindow() time.Duration                              { return time.Minute }
func (d *door) Threads(context.Context) (int, bool, error)               { return 0, false, nil }
func (d *door) ReadBalance(context.Context) error                        { return nil }
func (d *door) Balance() *float64                                        { return nil }
func (d *door) Advice(string) (does, remedy string)                      { return "", "" }

var errDead = errors.New("the replica is dead")

func (d *door) SolvedAtOnce(string) (s provider.Solution, is bool) { return s, false }

// Submit answers with a task, refuses, or does not answer.
func (d *door) Submit(_ context.Context, r provider.Submission) (string, error) {
	d.n.at()
	defer d.n.at()
	time.Sleep(rand.N(2 * time.Millisecond))
	if d.n.dead.Load() {
		return "", errDead
	}
	s := d.n.m.service
	s.mu.Lock()
	defer s.mu.Unlock()
	s.submits++
	switch x := rand.Float64(); {
	case x < 0.005:
		return "", &provider.Error{Class: provider.Task, Code: "ERROR_REFUSED"}
	case x < 0.01:
		return "", &provider.Error{Class: provider.Capacity, Code: "ERROR_NO_SLOT_AVAILABLE", Delay: 5 * time.Millisecond}
	}
	s.tasks++
	task := fmt.Sprint(s.tasks)
	s.accepted++
	s.ready[task], s.sitekeys[task] = time.Now().Add(8*time.Millisecond+rand.N(20*time.Millisecond)), r.Identity.Sitekey
	s.open = slices.DeleteFunc(append(s.open, task), func(other string) bool { return time.Now().After(s.ready[other]) })
	s.most = max(s.most, len(s.open))
	if rand.Float64() < 0.03 || d.n.dead.Load() {
		return "", errors.New("no answer")
	}
	return task, nil
}

// Poll answers with a token that has the site key and the task.
func (d *door) Poll(_ context.Context, task string, id captcha.Identity) (provider.Solution, error) {
	d.n.at()
	defer d.n.at()
	time.Sleep(rand.N(2 * time.Millisecond))
	if d.n.dead.Load() {
		return provider.Solution{}, errDead
	}
	s := d.n.m.service
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.ready[task]) {
		return provider.Solution{}, provider.ErrNotReady
	}
	s.collected[task] = true
	if task[len(task)-1] == '7' && rand.IntN(2) == 0 {
		return provider.Solution{}, &provider.Error{Class: provider.Task, Code: "ERROR_CAPTCHA_UNSOLVABLE"}
	}
	return provider.Solution{Token: id.Sitekey + "." + task}, nil
}
