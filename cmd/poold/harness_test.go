package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"poold/internal/pool/redistest"
	"poold/internal/provider/simulated"
)

// The test binary plays the solving service in a process of its own when this
// variable holds its options as JSON.
const providerRole = "POOLD_TEST_PROVIDER"

// binary is the built poold, with the race detector.
var binary string

func TestMain(m *testing.M) {
	if options := os.Getenv(providerRole); options != "" {
		os.Exit(playProvider(options))
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "poold-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "poold")
	if output, err := exec.Command("go", "build", "-race", "-buildvcs=false", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building poold: %v\n%s", err, output)
		return 1
	}
	return m.Run()
}

// playProvider serves the simulated provider, prints its address and ends with
// SIGTERM.
func playProvider(options string) int {
	var o simulated.Options
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(listener.Addr())
	if err := simulated.New(o).Serve(ctx, listener); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// startProvider runs the solving service as another process and returns its URL.
func startProvider(t *testing.T, o simulated.Options) string {
	t.Helper()
	o.Faults = nil                  // functions do not travel
	options, err := json.Marshal(o) //nolint:staticcheck // SA1026: the field with the functions is empty
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), providerRole+"="+string(options))
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
	})
	line := make([]byte, 64)
	n, err := out.Read(line)
	if err != nil {
		t.Fatalf("the provider did not start: %v", err)
	}
	return "http://" + strings.TrimSpace(string(line[:n]))
}

// ledger reads the provider's books.
func ledger(t *testing.T, provider string) simulated.Ledger {
	t.Helper()
	var books simulated.Ledger
	getJSON(t, provider+"/ledger", "", &books)
	return books
}

// process is a running poold.
type process struct {
	t       *testing.T
	command *exec.Cmd
	url     string
	key     string
	config  string

	output syncBuffer // what it prints
	ended  chan error
}

// startPoold runs the binary with a configuration file and an environment of
// its own, and returns when it is ready.
func startPoold(t *testing.T, config, key string, env ...string) *process {
	t.Helper()
	p := &process{t: t, key: key, config: config, ended: make(chan error, 1)}
	address := redistest.FreeAddress(t)
	p.url = "http://" + address
	p.command = exec.Command(binary, "serve", "--config", config, "--listen", address, "--log-level", "debug")
	p.command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "GORACE=halt_on_error=1"}, env...)
	p.command.Stdout, p.command.Stderr = &p.output, &p.output
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.command.Wait() }()
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		if t.Failed() {
			t.Logf("poold printed:\n%s", tail(p.output.String(), 8000))
		}
	})
	within(t, 20*time.Second, "poold to be ready", func() bool {
		select {
		case err := <-p.ended:
			t.Fatalf("poold ended: %v\n%s", err, p.output.String())
		default:
		}
		response, err := http.Get(p.url + "/readyz")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return p
}

// stop sends SIGTERM and returns how the process ended.
func (p *process) stop() error {
	p.t.Helper()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case err := <-p.ended:
		return err
	case <-time.After(15 * time.Second):
		p.t.Fatal("poold did not end within 15 s of SIGTERM")
		return nil
	}
}

// target reads one target's part of the status.
func (p *process) target(name string) targetStatus {
	p.t.Helper()
	var s targetStatus
	getJSON(p.t, p.url+"/pool/"+name, p.key, &s)
	return s
}

type targetStatus struct {
	Name, State, Reason                             string
	Depth, Want, Fresh, Waiting                     int
	InFlight                                        int `json:"in_flight"`
	Requests, Hits, Waited, Misses, Solved, Expired int64
	Failed, Returned                                int64
	HitRate                                         float64 `json:"hit_rate"`
}

// handout is a token answer.
type handout struct {
	ID, Target, Type, Token, Source, Provider string
	SolvedAt                                  time.Time `json:"solved_at"`
	ExpiresAt                                 time.Time `json:"expires_at"`
	TTLms                                     int64     `json:"ttl_ms"`
}

// take asks for a token; the status code tells how that went.
func (p *process) take(ctx context.Context, client *http.Client, target, query string, headers ...string) (handout, int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/pool/"+target+"/token"+query, nil)
	if err != nil {
		return handout{}, 0, err
	}
	if p.key != "" {
		request.Header.Set("Authorization", "Bearer "+p.key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := client.Do(request)
	if err != nil {
		return handout{}, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return handout{}, response.StatusCode, err
	}
	var h handout
	return h, response.StatusCode, json.Unmarshal(body, &h)
}

func getJSON(t *testing.T, url, key string, into any) {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v\n%s", url, response.Status, err, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("%s: %v\n%s", url, err, body)
	}
}

// within polls until something is so.
func within(t *testing.T, limit time.Duration, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("waited %v for %s in vain", limit, what)
}

func tail(text string, most int) string {
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}

// syncBuffer is written by the daemon while the test reads it.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
