//go:build soak

package deploy_test

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// attacks are the kinds of attackers of TestHostileClients. Each has its own address.
var attacks = []struct {
	name string
	run  func(*attacker) error
}{
	{"slow headers", func(a *attacker) error {
		return a.slowWriters("GET /pool/login/token HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", "a")
	}},
	{"slow bodies", func(a *attacker) error {
		return a.slowWriters("POST %s HTTP/1.1\r\nHost: localhost\r\n"+authorization+"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{", " ")
	}},
	{"slow chunks", func(a *attacker) error {
		return a.slowWriters("POST %s HTTP/1.1\r\nHost: localhost\r\n"+authorization+"Transfer-Encoding: chunked\r\n\r\n", "1\r\n{\r\n")
	}},
	{"slow readers", (*attacker).slowReaders},
	{"idle connections", (*attacker).idle},
	{"shapes", (*attacker).shapes},
	{"endless chunks", (*attacker).endlessChunks},
	{"pictures", (*attacker).pictures},
	{"reports", (*attacker).reports},
}

const authorization = "Authorization: Bearer " + key + "\r\n"

// attacker sends requests from its own address of the loopback network.
type attacker struct {
	*testing.T
	poold  string // host:port
	number byte   // last byte of the address
}

func (a *attacker) dialer() *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, a.number)}, Timeout: 10 * time.Second}
}

// dial opens a connection that ends after a time in which poold must have closed it.
func (a *attacker) dial() (net.Conn, error) {
	connection, err := a.dialer().Dial("tcp", a.poold)
	if err != nil {
		return nil, err
	}
	return connection, connection.SetDeadline(time.Now().Add(25 * time.Second))
}

// closed reads until poold closes a connection, and returns the status lines of the responses.
func closed(connection net.Conn) (statuses string, err error) {
	text, err := io.ReadAll(connection)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "", fmt.Errorf("poold did not close the connection; it sent %d bytes: %.200q", len(text), text)
	}
	for _, line := range regexp.MustCompile(`HTTP/1\.1 (\d+)`).FindAllSubmatch(text, -1) {
		statuses += " " + string(line[1])
	}
	return strings.TrimSpace(statuses), nil // another error means that poold has reset the connection
}

// each runs a function for many connections at once, and returns the first error.
func (a *attacker) each(n int, attack func(i int, connection net.Conn) error) error {
	failures := make(chan error, n)
	for i := range n {
		go func() {
			connection, err := a.dial()
			if err == nil {
				err = attack(i, connection)
				_ = connection.Close()
			}
			failures <- err
		}()
	}
	var first error
	for range n {
		first = cmp.Or(first, <-failures)
	}
	return first
}

// bodyPaths are the paths of all kinds of routes that read a body.
var bodyPaths = []string{
	"/solve", "/pool/login/token", "/pool/login/token/x/report", "/in.php", "/createTask", "/callback/s/o/x",
	"/-/reload", "/readyz", "/unknown",
}

// slowWriters send the start of a request and then one part every 200 ms, until poold closes the
// connection. No response takes longer than the limits for a request.
func (a *attacker) slowWriters(start, part string) error {
	return a.each(10*len(bodyPaths), func(i int, connection net.Conn) error {
		began := time.Now()
		if _, err := io.WriteString(connection, strings.ReplaceAll(start, "%s", bodyPaths[i%len(bodyPaths)])); err != nil {
			return err
		}
		go func() {
			for err := error(nil); err == nil; time.Sleep(200 * time.Millisecond) {
				_, err = io.WriteString(connection, part)
			}
		}()
		statuses, err := closed(connection)
		if err != nil || strings.Contains(statuses, " ") || time.Since(began) > 15*time.Second {
			return errors.Join(err, fmt.Errorf("%s: %q after %v", bodyPaths[i%len(bodyPaths)], statuses, time.Since(began)))
		}
		return nil
	})
}

// slowReaders request much and read nothing for longer than poold's limit for a response.
func (a *attacker) slowReaders() error {
	paths := []string{"/openapi.yaml", "/status", "/status.json", "/metrics", "/htmx.js", "/history/orders?status=solved", "/debug/pprof/goroutine?debug=2"}
	return a.each(2*len(paths), func(i int, connection net.Conn) error {
		if err := connection.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			return err
		}
		request := "GET " + paths[i%len(paths)] + " HTTP/1.1\r\nHost: localhost\r\nAccept: text/html, */*\r\n" + authorization + "\r\n"
		go func() { _, _ = io.WriteString(connection, strings.Repeat(request, 5000)) }()
		time.Sleep(12 * time.Second)
		_, err := closed(connection)
		return err
	})
}

// idle opens 5,000 connections and sends nothing. poold closes those beyond the limit at once, and
// the others after the limit for a request.
func (a *attacker) idle() error {
	var atOnce int
	var mu sync.Mutex
	err := a.each(5000, func(_ int, connection net.Conn) error {
		began := time.Now()
		_, err := closed(connection)
		mu.Lock()
		defer mu.Unlock()
		if time.Since(began) < 4*time.Second {
			atOnce++
		}
		return err
	})
	if atOnce < 1000 {
		err = errors.Join(err, fmt.Errorf("%d connections were closed at once", atOnce))
	}
	return err
}

// shapes sends requests that a proxy and poold could divide differently. The start of the second
// request must not be answered.
func (a *attacker) shapes() error {
	const second = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	const chunks, chunked = "5\r\nkey=a\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n"
	post := func(header, body string) string {
		return "POST /in.php HTTP/1.1\r\nHost: localhost\r\n" + header + "\r\n" + body + second
	}
	want := map[string]string{
		post("Content-Length: 5\r\n"+chunked, chunks):                                               "200",
		post(chunked+"Content-Length: 5\r\n", chunks):                                               "200",
		post("Content-Length: 5\r\nContent-Length: 6\r\n", "key=a"):                                 "400",
		post("Content-Length: 5, 6\r\n", "key=a"):                                                   "400",
		post("Content-Length: +5\r\n", "key=a"):                                                     "400",
		post("Content-Length: -1\r\n", "key=a"):                                                     "400",
		post("Content-Length: 99999999999999999999\r\n", "key=a"):                                   "400",
		post("Content-Length : 5\r\n", "key=a"):                                                     "400",
		post("Transfer-Encoding : chunked\r\n", chunks):                                             "400",
		post("Transfer-Encoding: xchunked\r\n", chunks):                                             "501",
		post("Transfer-Encoding: chunked, identity\r\n", chunks):                                    "501",
		post(chunked+"Transfer-Encoding: identity\r\n", chunks):                                     "501",
		post(chunked, "zz\r\nkey=a\r\n0\r\n\r\n"):                                                   "400",
		post(chunked, "-5\r\nkey=a\r\n0\r\n\r\n"):                                                   "400",
		post(chunked, "fffffffffffffffff\r\nkey=a\r\n0\r\n\r\n"):                                    "400",
		post(chunked, "5\r\nkey=aX\r\n0\r\n\r\n"):                                                   "400",
		post(chunked, "5\nkey=a\r\n0\r\n\r\n"):                                                      "400",
		"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n" + second:                  "400",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00" + second:             "404",
		"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("a", 1<<20) + "\r\n\r\n": "431",
		"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X: a\r\n", 1<<18) + "\r\n": "431",
		"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + second: "200",
		strings.Repeat(second, 99) + strings.Replace(second, "\r\n", "\r\nConnection: close\r\n", 1):                                                                  strings.TrimSpace(strings.Repeat(" 200", 100)),
	}
	var failures []error
	for text, statuses := range want {
		failures = append(failures, a.each(20, func(_ int, connection net.Conn) error {
			go func() { _, _ = io.WriteString(connection, text) }()
			got, err := closed(connection)
			if err == nil && got != statuses && (got != "" || statuses != "431") { // a reset may discard the response
				err = fmt.Errorf("statuses %s, want %s", got, statuses)
			}
			if err != nil {
				return fmt.Errorf("%.150q: %w", text, err)
			}
			return nil
		}))
	}
	return errors.Join(failures...)
}

// endlessChunks sends chunks until poold closes the connection.
func (a *attacker) endlessChunks() error {
	return a.each(len(bodyPaths), func(i int, connection net.Conn) error {
		began, sent := time.Now(), make(chan int, 1)
		go func() {
			total, err := fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", bodyPaths[i], authorization)
			chunk := "10000\r\n" + strings.Repeat(" ", 1<<16) + "\r\n"
			for n := 0; err == nil; total += n {
				n, err = io.WriteString(connection, chunk)
			}
			sent <- total
		}()
		statuses, err := closed(connection)
		if total := <-sent; err != nil || total > 16<<20 || strings.Contains(statuses, " ") {
			return errors.Join(err, fmt.Errorf("%s: %q after %v and %d bytes", bodyPaths[i], statuses, time.Since(began), total))
		}
		return nil
	})
}

// send sends a request with a body and returns the status of the response.
func (a *attacker) send(client *http.Client, path, body string) (int, error) {
	request, err := http.NewRequest(http.MethodPost, "http://"+a.poold+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode, err
}

// flood sends requests from several clients for some seconds, and counts the responses by status.
func (a *attacker) flood(clients int, path string, body func() string) (map[int]int, error) {
	client := &http.Client{Transport: &http.Transport{DialContext: a.dialer().DialContext, MaxIdleConnsPerHost: clients}, Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var all sync.WaitGroup
	statuses, failures := map[int]int{}, []error(nil)
	for range clients {
		all.Go(func() {
			for end := time.Now().Add(8 * time.Second); time.Now().Before(end); {
				status, err := a.send(client, path, body())
				mu.Lock()
				statuses[status]++
				if err != nil {
					failures = append(failures, err)
				}
				mu.Unlock()
				time.Sleep(100 * time.Millisecond) // otherwise the attackers would use up the processors of this machine
			}
		})
	}
	all.Wait()
	return statuses, errors.Join(failures...)
}

// pictures sends large pictures.
func (a *attacker) pictures() error {
	pixel, err := base64.StdEncoding.DecodeString("R0lGODlhAQABAIAAAP///wAAACwAAAAAAQABAAACAkQBADs=")
	if err != nil {
		return err
	}
	body := `{"type":"image","image":"` + base64.StdEncoding.EncodeToString(append(pixel, bytes.Repeat([]byte("x"), 500<<10)...)) + `"}`
	statuses, err := a.flood(40, "/solve", func() string { return body })
	a.Logf("pictures: %v", statuses)
	if len(statuses) != 1 || statuses[200] == 0 {
		err = errors.Join(err, fmt.Errorf("statuses %v", statuses))
	}
	return err
}

// reports floods poold with reports for unknown tokens.
func (a *attacker) reports() error {
	statuses, err := a.flood(8, "/pool/login/token/unknown/report", func() string { return `{"outcome":"rejected"}` })
	a.Logf("reports: %v", statuses)
	if len(statuses) != 1 || statuses[404] == 0 {
		err = errors.Join(err, fmt.Errorf("statuses %v", statuses))
	}
	return err
}
