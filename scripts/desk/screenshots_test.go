// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package desk

import (
	"bytes"
	"cmp"
	"flag"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var update = flag.Bool("update", false, "take the pictures of docs/desk.md anew")

// pictures is where docs/desk.md finds its pictures, and maxPicture the size of the largest, in bytes.
const (
	pictures   = "../../docs/desk"
	maxPicture = 120_000
)

// shots are the pictures.
var shots = []struct {
	name, user, path string
	width            int64
	dark             bool
	// prepare does something on the page first.
	prepare func(*browser)
}{
	{name: "overview", user: "carol", path: "/desk/accounts/acme", width: 1000},
	{name: "overview-dark", user: "carol", path: "/desk/accounts/acme", width: 1000, dark: true},
	{name: "overview-phone", user: "carol", path: "/desk/accounts/acme", width: 360},
	{name: "keys", user: "carol", path: "/desk/accounts/acme/keys", width: 1000},
	{name: "playground", user: "carol", path: "/desk/accounts/acme/playground", width: 1000, prepare: func(b *browser) {
		b.do(chromedp.SetValue(chromedp.CSS("#content"), vile), chromedp.SetValue(chromedp.CSS("#themes"), "bread"),
			chromedp.Click(chromedp.CSS(submit)), chromedp.WaitVisible(chromedp.CSS("[data-verdict]")))
	}},
	{name: "history", user: "carol", path: "/desk/accounts/acme/history?days=90", width: 1000},
	{name: "thresholds", user: "alice", path: "/desk/accounts/acme/thresholds?threshold.hate=&threshold.harassment=0.8" +
		"&threshold.self-harm=&threshold.sexual=&threshold.violence=0.9", width: 1000},
	{name: "home", user: "alice", path: "/desk/", width: 1000},
	{name: "accounts", user: "alice", path: "/desk/accounts", width: 1000},
	{name: "audit", user: "alice", path: "/desk/audit", width: 1000},
	{name: "config", user: "alice", path: "/desk/config", width: 1000},
	{name: "no-role", user: "mallory", path: "/desk/", width: 1000},
}

// TestScreenshots compares the pictures with what docs/desk.md shows, and takes them anew with -update.
func TestScreenshots(t *testing.T) {
	page, err := os.ReadFile("../../docs/desk.md")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		site := serve(t)
		for _, shot := range shots {
			b := open(t, site, shot.user)
			b.size(shot.width, 700, shot.dark)
			b.visit(shot.path)
			if shot.prepare != nil {
				shot.prepare(b)
			}
			time.Sleep(1500 * time.Millisecond) // the gauge is live
			taken := smaller(t, get(b, chromedp.FullScreenshot(100)))
			if err := os.MkdirAll(pictures, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(pictures, shot.name+".png"), taken, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, shot := range shots {
		info, err := os.Stat(filepath.Join(pictures, shot.name+".png"))
		if err != nil {
			t.Error(err)
			continue
		}
		if info.Size() > maxPicture {
			t.Errorf("%s.png has %d bytes, want at most %d", shot.name, info.Size(), maxPicture)
		}
		if !strings.Contains(string(page), "](desk/"+shot.name+".png)") {
			t.Errorf("docs/desk.md does not show %s.png", shot.name)
		}
	}
}

// smaller returns a picture with a palette of its 256 most frequent colours: pages have few others.
func smaller(t *testing.T, picture []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	bounds := from.Bounds()
	counts := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(from.At(x, y)).(color.RGBA) }
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[at(x, y)]++
		}
	}
	var colors []color.RGBA
	for c := range counts {
		colors = append(colors, c)
	}
	slices.SortFunc(colors, func(a, b color.RGBA) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	for _, c := range colors[:min(len(colors), 256)] {
		palette = append(palette, c)
	}
	to := image.NewPaletted(bounds, palette)
	nearest := map[color.RGBA]uint8{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c := at(x, y)
			index, known := nearest[c]
			if !known {
				index = uint8(palette.Index(c))
				nearest[c] = index
			}
			to.SetColorIndex(x, y, index)
		}
	}
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&b, to); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
