package httpapi

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"poold/internal/listener"
	"poold/internal/testkit"
)

// TestSentBytesAreCountedBelowTLS: handlers see the byte count of the socket, with and without
// TLS.
func TestSentBytesAreCountedBelowTLS(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			before := sentBytes(r.Context())
			if before < 0 || !encrypted && before != 0 {
				t.Error("bytes are counted before any were sent, or not at all")
			}
			if _, err := io.WriteString(w, "hello"); err != nil {
				t.Error(err)
			}
			if sentBytes(r.Context()) != before {
				t.Error("counted what is still in net/http's buffer")
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			if sentBytes(r.Context()) == before {
				t.Error("did not count what was sent")
			}
		}))
		port, err := listener.Listen(t.Context(), "127.0.0.1:0", 9, slog.New(slog.DiscardHandler))
		testkit.NoError(t, err)
		testkit.NoError(t, server.Listener.Close())
		server.Listener, server.Config.ConnContext = port, connContext
		if encrypted {
			server.StartTLS()
		} else {
			server.Start()
		}
		response, err := server.Client().Get(server.URL)
		testkit.NoError(t, err)
		_ = response.Body.Close()
		server.Client().CloseIdleConnections()
		server.Close()
	}
}
