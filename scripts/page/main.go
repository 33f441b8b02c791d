// Command page takes a screenshot of a page in a headless Chromium (scripts/page/pictures).
//
//	go run ./scripts/page [options] URL FILE.png
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"poold/internal/httpapi/browsertest"
)

func main() {
	var s shot
	flag.Int64Var(&s.width, "width", 1280, "`pixels` of the viewport")
	flag.Int64Var(&s.height, "height", 900, "`pixels` of the viewport")
	flag.StringVar(&s.scheme, "scheme", "light", "color scheme: light or dark")
	flag.BoolVar(&s.scriptless, "scriptless", false, "the page runs no scripts of its own")
	flag.Parse()
	if err := s.take(flag.Arg(0), flag.Arg(1)); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", flag.Arg(1), err)
		os.Exit(1)
	}
}

type shot struct {
	width, height int64
	scheme        string
	scriptless    bool
}

func (s *shot) take(url, file string) error {
	browser, stop, err := browsertest.Start(context.Background())
	if err != nil {
		return err
	}
	defer stop()
	page, closing, err := browser.Open()
	if err != nil {
		return err
	}
	defer closing()
	err = page.Look(s.width, s.height, 1, s.scheme)
	if err == nil && s.scriptless {
		err = page.DisableScripts()
	}
	if err == nil {
		err = page.Visit(url)
	}
	if err != nil {
		return err
	}
	time.Sleep(time.Second)
	png, err := page.Picture()
	if err == nil {
		err = os.WriteFile(file, png, 0o644) //nolint:gosec // every user may read a picture
	}
	for _, trouble := range page.Troubles() {
		fmt.Println(file, trouble)
	}
	return err
}
