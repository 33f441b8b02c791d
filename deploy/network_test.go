//go:build !race

package deploy_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"poold/internal/provider/simulatedtest"
	"poold/internal/testkit"
)

// network is a network namespace that has only a loopback interface. The programs of a test listen in
// it on the ports that the files of this folder name.
type network struct{ namespace *os.File }

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := new(network)
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(socket) }()
		loopback, err := unix.NewIfreq("lo")
		if err != nil {
			return err
		}
		loopback.SetUint16(unix.IFF_UP)
		if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, loopback); err != nil {
			return err
		}
		n.namespace, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		t.Fatalf("a new network namespace, as root: %v", err)
	}
	t.Cleanup(func() { _ = n.namespace.Close() })
	return n
}

// onThread calls f on a thread that ends with the call.
func onThread(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // without an unlock, so that the runtime ends the thread
		result <- f()
	}()
	return <-result
}

// inside calls f on a thread in the namespace. The sockets and processes that f creates stay in the
// namespace.
func (n *network) inside(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(n.namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	})
}

// call sends a request with a caller's key, and returns the status code and the body of the response.
// The status code is 0 if no server answers within the limit.
func (n *network) call(limit time.Duration, method, url, key string) (status int, body string) {
	dial := func(ctx context.Context, kind, address string) (connection net.Conn, err error) {
		err = n.inside(func() error {
			connection, err = new(net.Dialer).DialContext(ctx, kind, address)
			return err
		})
		return connection, err
	}
	client := http.Client{Timeout: limit, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	request, err := http.NewRequest(method, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

// take takes a token from the target that the files of this folder have.
func (n *network) take(t *testing.T, address, key string) {
	t.Helper()
	if status, body := n.call(40*time.Second, http.MethodPost, "http://"+address+"/pool/staging-login/token?wait=30s",
		key); status != http.StatusOK {
		t.Errorf("a token from %s: %d %s", address, status, body)
	}
}

// refuses reports whether poold answers 401 to a caller's key.
func (n *network) refuses(address, key string) bool {
	status, _ := n.call(10*time.Second, http.MethodGet, "http://"+address+"/status.json", key)
	return status == http.StatusUnauthorized
}

// provider is a simulated solving service in a network.
type provider struct {
	url  string
	last atomic.Value // the parameters of the last request, as a string
}

func (n *network) provider(t *testing.T) *provider {
	t.Helper()
	var listener net.Listener
	err := n.inside(func() (err error) {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	})
	testkit.NoError(t, err)
	p := &provider{url: "http://" + listener.Addr().String()}
	service := simulatedtest.New(simulatedtest.Setup{Median: 200 * time.Millisecond})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p.last.Store(r.URL.RawQuery + string(body))
		r.Body = io.NopCloser(bytes.NewReader(body))
		service.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		service.Close()
	})
	return p
}

// replaceURL adds the URL of the solving service to a pools.yaml. It is the only change that these
// tests make to a configuration file.
func (p *provider) replaceURL(t *testing.T, text string) string {
	t.Helper()
	service := regexp.MustCompile(`( *)- service: captchaai\n`)
	if len(service.FindAllString(text, -1)) != 1 {
		t.Fatalf("the file does not have the service once:\n%s", text)
	}
	return service.ReplaceAllString(text, "${0}${1}  url: "+p.url+"\n")
}

// redis runs a redis-server in the network until the test ends, and returns when it answers.
func (n *network) redis(t *testing.T, password string, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command("redis-server", append(args, "--dir", t.TempDir())...)
	output := new(testkit.Log)
	command.Stdout = output
	testkit.NoError(t, n.inside(command.Start))
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("redis-server printed:\n%s", output)
		}
	})
	testkit.Within(t, 20*time.Second, "redis", func() bool {
		ping := exec.Command("redis-cli", "ping")
		ping.Env = append(os.Environ(), "REDISCLI_AUTH="+password)
		answer := new(bytes.Buffer)
		ping.Stdout = answer
		return n.inside(ping.Run) == nil && answer.String() == "PONG\n"
	})
	return command
}
