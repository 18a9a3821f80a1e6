// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/caddy-moderation/caddy-moderation/engine"
)

// BenchmarkLanguages moderates an ordinary post in some languages, and says how long a character takes.
func BenchmarkLanguages(b *testing.B) {
	e, err := engine.New(engine.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for _, test := range []struct{ tag, text string }{
		{"en", "Tomorrow we go to the beach with the children if the weather is good. My sister brings the cake."},
		{"es", "Mañana vamos a la playa con los niños si hace buen tiempo. Mi hermana trae la tarta de siempre."},
		{"de", "Morgen fahren wir mit den Kindern an den See, wenn das Wetter hält. Meine Schwester bringt Kuchen."},
		{"fr", "Demain nous allons à la plage avec les enfants s'il fait beau. Ma sœur apporte le gâteau."},
		{"pl", "Jutro jedziemy z dziećmi nad jezioro, jeśli będzie ładna pogoda. Moja siostra przywiezie ciasto."},
		{"ru", "Завтра поедем с детьми на озеро, если будет хорошая погода. Моя сестра привезёт пирог."},
		{"ar", "غدا سنذهب مع الأطفال إلى البحر إذا كان الطقس جميلا. أختي ستحضر الكعكة معها."},
		{"hi", "कल हम बच्चों के साथ बाज़ार जाएँगे अगर मौसम अच्छा रहा। मेरी बहन केक लाएगी।"},
		{"zh", "如果明天天气好，我们就带孩子们去海边玩。我姐姐会带蛋糕来，大家一起吃。"},
		{"ja", "明日天気がよければ、子どもたちと海に行く予定です。姉がケーキを持ってきます。"},
		{"ko", "내일 날씨가 좋으면 아이들과 함께 바다에 갈 거예요. 언니가 케이크를 가져와요."},
	} {
		text := strings.Repeat(test.text+" ", 3)
		points := utf8.RuneCountInString(text)
		b.Run(test.tag, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r, err := e.Moderate(context.Background(), engine.Request{Content: text})
				if err != nil || r.Language.Tag != test.tag {
					b.Fatalf("got %+v, %v", r.Language, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*points), "ns/char")
		})
	}
}
