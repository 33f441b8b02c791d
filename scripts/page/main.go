// Command page takes a screenshot of a page in a headless Chromium (scripts/page/pictures).
//
//	go run ./scripts/page [options] URL FILE.png
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"poold/internal/httpapi/browsertest"
)

func main() {
	width := flag.Int64("width", 1280, "`pixels` of the viewport")
	height := flag.Int64("height", 900, "`pixels` of the viewport")
	scheme := flag.String("scheme", "light", "color scheme: light or dark")
	scriptless := flag.Bool("scriptless", false, "the page runs no scripts of its own")
	flag.Parse()
	view := func(p *browsertest.Page) error { return p.Viewport(*width, *height, 1, *scheme) }
	if err := take(flag.Arg(0), flag.Arg(1), *scriptless, view); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", flag.Arg(1), err)
		os.Exit(1)
	}
}

func take(url, file string, scriptless bool, view func(*browsertest.Page) error) error {
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
	err = view(page)
	if scriptless {
		err = errors.Join(err, page.DisableScripts())
	}
	if err = errors.Join(err, page.Visit(url)); err != nil {
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
