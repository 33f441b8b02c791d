package httpapi

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"poold/internal/compat"
	"poold/internal/pool"
)

// A submit that a client repeats because it did not get the answer gets the first task.
// A submit that was answered is not repeated: an equal one buys its own token.
func TestLostSubmitIsRepeated(t *testing.T) {
	const body = `{"clientKey":"` + keyAll + `","task":{"type":"TurnstileTaskProxyless","websiteKey":"k","websiteURL":"https://guests.example.com/a"}}`
	d := start(t, solving(t, allKeys()...), nil, nil)
	d.solver.token = pool.Token{ID: "tok1.sig", Order: "tok1", Value: tokenValue, Born: day, Dies: day.Add(2 * time.Minute)}
	began, release := make(chan struct{}, 3), make(chan struct{})
	d.solver.during = func() { began <- struct{}{}; <-release }
	open := sync.OnceFunc(func() { close(release) })
	defer open()

	conn := dial(t, d.addr)
	if _, err := fmt.Fprintf(conn, "POST /createTask HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}
	<-began // the order is placed, and its client leaves before the answer
	reset(t, conn)
	eventually(t, "the submit is over", func() bool { return strings.Contains(d.logged.String(), `"route":"/createTask"`) })
	first := d.task(t, "/createTask", body)["taskId"]
	if n := len(began); first == nil || n > 0 {
		t.Errorf("the repeated submit got %v and bought %d", first, n)
	}
	open()
	second := d.task(t, "/createTask", body)["taskId"]
	<-began
	if second == nil || second == first {
		t.Errorf("a submit after an answered one got %v, which %v has", second, first)
	}
	d.solver.mu.Lock()
	defer d.solver.mu.Unlock()
	if n := len(d.solver.asked); n != 2 {
		t.Errorf("%d solves for two answered submits", n)
	}
}

// A failed task is not repeated.
func TestLostSubmitOfAFailedTask(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	records := compat.NewRecords(d.stock.DB)
	tasks := compat.New(records, d.stock, d.solver, d.log)
	login := d.target("checkout")
	task := compat.Task{Caller: "key\x00all\x00", Identity: login.ID, Type: login.Identity.Type}
	if fresh, err := records.Make(t.Context(), "12345678901", task, false); err != nil || !fresh {
		t.Fatal(fresh, err)
	}
	open := func() bool {
		is, err := tasks.Open(t.Context(), "12345678901", task.Caller)
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	if !open() {
		t.Error("a task under way is not open")
	}
	if err := records.Fail(t.Context(), "12345678901", "refused"); err != nil {
		t.Fatal(err)
	}
	if open() {
		t.Error("a failed task is open")
	}
}
