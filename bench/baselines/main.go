// Command baselines contains two simple programs. bench/takes compares poold with them. Both programs
// return a text of a token's size over HTTP.
//
//	baselines bare LISTEN              net/http alone: the handler waits for another goroutine
//	baselines lpop LISTEN REDIS LIST   a simple program: echo, and one LPOP per request
package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"
)

// answerBytes is the approximate length of poold's response with a token of 600 bytes.
const answerBytes = 900

func main() {
	var handler http.Handler
	switch args := os.Args[1:]; {
	case len(args) == 2 && args[0] == "bare":
		handler = bareHandler()
	case len(args) == 4 && args[0] == "lpop":
		handler = lpopHandler(args[2], args[3])
	default:
		fmt.Fprintln(os.Stderr, "usage: baselines bare LISTEN | baselines lpop LISTEN REDIS LIST")
		os.Exit(2)
	}
	server := &http.Server{Addr: os.Args[2], Handler: handler, ReadTimeout: 5 * time.Second}
	fmt.Fprintln(os.Stderr, server.ListenAndServe())
	os.Exit(1)
}

// bareHandler returns a handler that gets a text from another goroutine and responds with it.
func bareHandler() http.Handler {
	body := []byte(strings.Repeat("x", answerBytes))
	asked := make(chan chan []byte)
	go func() {
		for answer := range asked {
			answer <- body
		}
	}()
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer := make(chan []byte, 1)
		asked <- answer
		_, _ = w.Write(<-answer) // the error is ignored, because it means that the caller hung up
	})
}

// lpopHandler returns a handler that removes the first element of a Redis list and responds with it.
func lpopHandler(address, list string) http.Handler {
	client := redis.NewClient(&redis.Options{Addr: address})
	e := echo.New()
	e.GET("/", func(c echo.Context) error {
		token, err := client.LPop(c.Request().Context(), list).Result()
		if errors.Is(err, redis.Nil) {
			return c.NoContent(http.StatusServiceUnavailable)
		}
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, map[string]string{"token": token})
	})
	return e
}
