package main

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/caddy-moderation/caddy-moderation/engine/model"
	"github.com/caddy-moderation/caddy-moderation/engine/train"
)

func main() {
	var opt train.ReaderOptions
	flag.IntVar(&opt.Epochs, "epochs", 0, "")
	flag.Float64Var(&opt.Rate, "rate", 0, "")
	flag.Float64Var(&opt.Scraped, "scraped", 0, "")
	flag.Float64Var(&opt.Forget, "forget", 0, "")
	flag.Float64Var(&opt.Drop, "drop", 0, "")
	flag.Float64Var(&opt.Decay, "decay", 0, "")
	flag.Float64Var(&opt.Start, "start", 0, "")
	flag.Float64Var(&opt.WordRate, "wr", 0, "")
	flag.Float64Var(&opt.Skip, "skip", 0, "")
	flag.Uint64Var(&opt.Seed, "seed", 0, "")
	sample := flag.Int("sample", 4, "")
	rw := flag.Float64("reweigh", 0.3, "")
	disguise := flag.Float64("disguise", 0.3, "")
	embed := flag.Float64("embed", 0.1, "")
	lin := flag.String("linear", "/tmp/dev.model", "")
	flag.Parse()
	start := time.Now()
	ex, err := train.Read(os.DirFS("engine/train/corpus"), os.DirFS("/work/shared/data"))
	if err != nil {
		panic(err)
	}
	pool := train.NewPool(ex, false)
	learn := pool.Splits[train.Learn]
	learn = train.Sample(learn, *sample)
	train.Reweigh(learn, float32(*rw))
	learn = append(learn, append(train.Augment(learn, *disguise, 0), train.Embed(learn, *embed, 0)...)...)
	fmt.Println(time.Since(start), len(learn))
	w := train.FitReader(learn, opt)
	fmt.Println(time.Since(start))
	judge := pool.Splits[train.Judge]
	tune := pool.Splits[train.Tune]
	b, _ := os.ReadFile(*lin)
	m, err := model.Load(bytes.NewReader(b))
	if err != nil {
		panic(err)
	}
	z, zt := w.Logits(judge), w.Logits(tune)
	logit := func(p float64) float64 { return math.Log(p+1e-9) - math.Log(1-p+1e-9) }
	linear := func(ex []train.Example) [][model.Heads]float64 {
		out := make([][model.Heads]float64, len(ex))
		for i := range ex {
			p := m.Probabilities(ex[i].Text)
			for h := range p {
				out[i][h] = logit(p[h])
			}
		}
		return out
	}
	lj, lt := linear(judge), linear(tune)
	thr := []float64{.7, .7, .5, .8, .6}
	anyL, anyR, anyB := make([]float64, len(judge)), make([]float64, len(judge)), make([]float64, len(judge))
	for i := range judge {
		anyL[i], anyR[i], anyB[i] = -99, -99, -99
	}
	own := func(e *train.Example) bool { return e.Written && e.Source != "annotated" }
	for h := range model.Heads {
		// blend by logistic regression on tune
		var X [][3]float64
		var Y []float64
		for i := range tune {
			e := &tune[i]
			if e.Labelled(h) && (h >= 5 || e.Written) && e.Source != "lexicon" {
				X = append(X, [3]float64{lt[i][h], float64(zt[i][h]), 1})
				y := 0.
				if e.Positive(h) {
					y = 1
				}
				Y = append(Y, y)
			}
		}
		var wt [3]float64
		for it := 0; it < 3000; it++ {
			var g [3]float64
			for i, x := range X {
				p := 1 / (1 + math.Exp(-(wt[0]*x[0] + wt[1]*x[1] + wt[2])))
				for k := range g {
					g[k] += (p - Y[i]) * x[k]
				}
			}
			for k := range g {
				wt[k] -= 0.3 * g[k] / float64(len(X))
			}
			if it > 300 && len(X) > 5000 {
				break
			}
		}
		var sl, sr, sb []train.Scored
		for i := range judge {
			e := &judge[i]
			bl := wt[0]*lj[i][h] + wt[1]*float64(z[i][h]) + wt[2]
			if h < 5 {
				anyL[i] = max(anyL[i], lj[i][h]-logit(thr[h]))
				anyR[i] = max(anyR[i], float64(z[i][h])-logit(thr[h]))
				anyB[i] = max(anyB[i], bl-logit(thr[h]))
			}
			if e.Labelled(h) && (h < 5) == own(e) && e.Source != "lexicon" {
				sl = append(sl, train.Scored{P: lj[i][h], Yes: e.Positive(h)})
				sr = append(sr, train.Scored{P: float64(z[i][h]), Yes: e.Positive(h)})
				sb = append(sb, train.Scored{P: bl, Yes: e.Positive(h)})
			}
		}
		fmt.Printf("%2d %5d AUC lin %.4f read %.4f blend %.4f   AP %.3f %.3f %.3f   w %.2f %.2f\n", h, len(sl), train.AUC(sl), train.AUC(sr), train.AUC(sb),
			train.AveragePrecision(sl), train.AveragePrecision(sr), train.AveragePrecision(sb), wt[0], wt[1])
	}
	for _, src := range []string{"", "posts", "voices", "contrast", "annotated"} {
		var sl, sr, sb []train.Scored
		for i := range judge {
			e := &judge[i]
			if src == "" && own(e) || e.Written && e.Source == src {
				yes := !e.Harmless()
				sl = append(sl, train.Scored{P: anyL[i], Yes: yes})
				sr = append(sr, train.Scored{P: anyR[i], Yes: yes})
				sb = append(sb, train.Scored{P: anyB[i], Yes: yes})
			}
		}
		fmt.Printf("any %-10s %5d AUC lin %.4f read %.4f blend %.4f\n", src, len(sl), train.AUC(sl), train.AUC(sr), train.AUC(sb))
	}
	fmt.Println(time.Since(start))
}
