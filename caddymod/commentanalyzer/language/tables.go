// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package language

import (
	"strings"
	"unicode"
)

// scriptID is a script, or a group of those that one language is written in.
type scriptID uint8

const (
	latin scriptID = iota
	cyrillic
	arabic
	han
	kana
	hangul
	devanagari
	greek
	hebrew
	thai
	bengali
	tamil
	telugu
	georgian
	armenian
	other

	numScripts = int(other) + 1
)

// scripts are the scripts with the language that is most often written in them.
var scripts = [numScripts]struct {
	table *unicode.RangeTable
	tag   string
	dense bool // a character is nearly a word
}{
	latin:      {unicode.Latin, "en", false},
	cyrillic:   {unicode.Cyrillic, "ru", false},
	arabic:     {unicode.Arabic, "ar", false},
	han:        {unicode.Han, "zh", true},
	kana:       {nil, "ja", true}, // two tables
	hangul:     {unicode.Hangul, "ko", true},
	devanagari: {unicode.Devanagari, "hi", false},
	greek:      {unicode.Greek, "el", false},
	hebrew:     {unicode.Hebrew, "he", false},
	thai:       {unicode.Thai, "th", false},
	bengali:    {unicode.Bengali, "bn", false},
	tamil:      {unicode.Tamil, "ta", false},
	telugu:     {unicode.Telugu, "te", false},
	georgian:   {unicode.Georgian, "ka", false},
	armenian:   {unicode.Armenian, "hy", false},
	other:      {nil, Undetermined, false},
}

// scriptOf returns the script of a letter.
func scriptOf(r rune) scriptID {
	if unicode.In(r, unicode.Hiragana, unicode.Katakana) {
		return kana
	}
	for i := range scripts {
		if table := scripts[i].table; table != nil && unicode.Is(table, r) {
			return scriptID(i)
		}
	}
	if r >= 0x1D400 && r <= 0x1D7FF || r >= 0xFF21 && r <= 0xFF5A {
		return latin // mathematical and fullwidth letters: decoration of Latin text
	}
	return other
}

// ownLetters are letters by which languages are told apart from the one that is most often written in their script.
var ownLetters = []struct {
	script  scriptID
	letters string
	tag     string
}{
	{cyrillic, "іїєґІЇЄҐ", "uk"},
	{cyrillic, "ђјљњћџЂЈЉЊЋЏ", "sr"},
	{arabic, "ٹڈڑے", "ur"},
	{arabic, "پچژگک", "fa"},
}

// latinTags are the languages in Latin script that are told apart.
var latinTags = [...]string{
	"en", "es", "fr", "de", "pt", "it", "nl", "sv", "pl", "cs", "id", "hi-Latn", "tr", "da", "no", "fi", "ro", "hu", "vi", "tl",
}

// english is the index of English in latinTags.
const english = 0

// frequentWords are the words that hold sentences together, by language; for English also what comments are full of.
// A word that stands in several lists is evidence for each of them, and counts for each only its share.
var frequentWords = map[string]string{
	"en": `the be to of and a in that have i it for not on with he as you do at this but his by from they we say her she or an will my one all
		would there their what so up out if about who get which go me when make can like time no just him know take people into year your good
		some could them see other than then now look only come its over think also back after use two how our work first well way even new want
		because any these give day most us is are was were been being has had did does doing am im youre hes shes theyre dont doesnt didnt isnt
		arent wasnt wont cant couldnt wouldnt shouldnt aint ive youve thats whats lets lol lmao omg wtf idk u ur r ya yeah yes nope ok okay hey hi
		hello thanks thank please pls sorry really very much many too here where why should must may might still never always ever again off down
		man guy guys bro dude girl woman women men fuck fucking fucked shit bitch ass damn hell stupid idiot dumb moron loser suck sucks kill die
		hate love shut bad nice great best worst got gonna wanna gotta let need right wrong thing things stuff person life old own say said says
		goes going went made makes every each something nothing anything someone everyone nobody more less few last next same such those through
		before between under while during without against away around world game play team post comment read write wow cool true false real kid
		ez gg wp noob noobs ff mid pls st la pro muy mo todo dat dis dem mi ma me los`,
	"es": `el la los las un una de del que y en a por con para no es se su lo como más pero sus le ya o este sí porque esta entre cuando muy sin
		sobre también me hasta hay donde quien desde todo nos durante todos uno les ni contra otros ese eso ante ellos e esto mí antes algunos qué
		unos yo otro otras otra él tanto esa estos mucho quienes nada muchos cual poco ella estar estas estoy eres soy está están somos son tu tú te ti
		mi mis bien gracias hola puta mierda pendejo cabrón tonto idiota estúpido ser fue era tiene tengo hacer hace puede aquí ahora siempre nunca usted vete`,
	"fr": `le la les un une des de du et est en que qui dans pour pas sur au aux avec ce cette ces il elle ils elles on nous vous je tu me te se ne
		plus mais ou où si tout tous très bien être avoir suis es sont était ont ai as a été fait faire comme par son sa ses mon ma mes ton ta tes leur
		leurs notre votre aussi alors donc car quand comment pourquoi parce cest jai quil quelle dun dune nest pas rien jamais toujours merci bonjour
		salut oui non putain merde connard salope con va vas ça cela encore même sans sous entre chez peut trop ta gueule cons
		mdr ptdr jte jsuis ya dire faut cest cette honte sale vie gros espèce gens juif arabe`,
	"de": `der die das und ist in zu den nicht ein eine einen einem einer eines du ich er sie es wir ihr mich mir dich dir sich mit auf für von dem des
		im am um an als auch so wie aber oder wenn dass daß was wer wo warum hat habe haben hast hatte sind bin bist war waren wird werden wurde kann kannst
		können muss müssen soll sollte noch nur schon sehr mehr immer nie nichts kein keine keinen mein meine dein deine sein seine uns euch bei nach aus vor
		über unter durch gegen ohne bis hier da dann jetzt doch mal ja nein danke bitte hallo gut scheiße scheisse arschloch dumm dummer idioten halt fresse man zum zur`,
	"pt": `o a os as um uma de do da dos das em no na nos nas que e é não por para com se mais como mas foi ao ele ela eles elas seu sua seus suas ou
		quando muito já eu também só pelo pela até isso isto entre depois sem mesmo aos ter quem me esse essa você vocês tu te minha meu meus está estão são
		ser tem têm vai vou fazer pode aqui agora sempre nunca nada tudo obrigado olá oi sim porque pra pro cara merda porra caralho idiota burro tá né era`,
	"it": `il lo la i gli le un uno una di del della dei delle e è in che non per con su da si come ma più anche mi ti ci vi se o ho hai ha abbiamo avete
		hanno sono sei siamo siete era questo questa questi quello quella io tu lui lei noi voi loro mio mia tuo tua suo sua nel nella al alla dal dalla
		perché quando dove chi cosa molto tutto tutti sempre mai niente grazie ciao sì bene fare fatto essere ancora già qui ora solo cazzo merda stronzo vaffanculo stupido degli sul`,
	"nl": `de het een en van is in dat die niet op te zijn met voor aan er ik je jij hij zij ze wij we jullie maar om ook als dan nog naar bij uit dit
		deze over door heb hebt heeft hebben had ben bent was waren wordt worden kan kunnen moet moeten zal zou wil wel geen mijn jouw zijn haar ons onze
		wat wie waar waarom hoe hier daar nu altijd nooit niets alles iets veel meer zo dus want of tot dank bedankt hallo goed ja nee kut klootzak hoer godverdomme mensen`,
	"sv": `och att det som en på är av för med till den har de inte om ett han men var jag sig från vi så kan när år under också efter eller nu sin där
		vid mot ska skulle kommer ut får finns vara hade alla andra mycket än här då sedan över bara in blir upp även vad två vill ha hur mig dig du er oss
		din mitt min man nej ja tack hej bra aldrig alltid ingen inget detta denna fan jävla skit idiot fitta hora`,
	"pl": `i w na z do nie się to że jest o jak ale po co za od tak czy już tylko jego jej ich dla być był była było są ma mam masz przez przy ten ta te
		tego tym jestem jesteś bardzo gdy gdzie kto kiedy może mnie mi cię ci ty ja on ona my wy oni nas was im więc bo też jeszcze nic wszystko zawsze nigdy
		dziękuję cześć dobrze kurwa chuj dupa pierdol jebać debil sobie pod nad`,
	"cs": `a v na je se že to s z do o i ve pro jak ale za by jsem jsi jsou byl byla bylo být není tak co po od který která které když nebo už jen také
		jeho její jejich ten ta tom ti mi mě tě ty já on ona my vy oni nás vás jim proto protože kde kdo kdy ještě nic všechno vždy nikdy děkuji ahoj dobře
		kurva píča hovno debil idiot může mám máš má bude`,
	"id": `yang dan di itu dengan untuk tidak ini dari dalam akan pada juga saya ke karena tersebut bisa ada mereka lebih kata tahun sudah atau saat oleh
		menjadi orang dia kami kita aku kamu kalian apa siapa kenapa bagaimana sangat banyak tapi kalau jika bukan belum hanya seperti semua lagi nggak gak
		enggak ga udah aja banget gue lu elo kok sih dong deh anjing bangsat goblok tolol terima kasih selamat mau`,
	"hi-Latn": `hai hain nahi nahin kya mein aur ki ka ke ko se tum mera meri mere tera teri tere bhi ho kar raha rahi rahe tha thi kuch koi kyun kyu kaise
		yeh ye woh wo hum aap main mujhe tujhe apna apni sab bahut bohot accha acha theek thik bhai yaar abhi kab kahan jab tab toh phir wala wale gaya gayi
		karo karna hota hoti hua madarchod behenchod bhenchod chutiya gandu kutta kutte saala sala harami randi bilkul log`,
	"tr": `ve bir bu da de için ile çok ne ben sen o biz siz onlar var yok mi mı mu mü değil gibi daha ama en kadar sonra olarak olan her şey ki nasıl neden
		niye bana sana ona beni seni onu benim senin bizim şimdi hiç zaten ya diye iyi kötü evet hayır teşekkürler merhaba amk orospu siktir piç salak aptal lan`,
	"da": `og i at det er en til på af den for de ikke der som med et har jeg du han hun vi så men var sig ud kan blev skal om over efter være hvad hvor
		hvem hvorfor mig dig min din noget meget også nu kun bare eller hvis fra op når alle mere end tak hej nej ja aldrig altid ingen lort pik kælling fandens`,
	"no": `og i det er på en som for med jeg av til at ikke den har de et han var om du vi så kan skal men fra hva hvor hvem hvorfor meg deg min din seg bare
		noe veldig også nå etter eller hvis når være vært mer enn takk hei nei ja aldri alltid ingen dritt faen jævla kuk hore ble blir denne dette`,
	"fi": `ja on ei että se hän oli olla mutta kun niin myös kuin tai jos mitä mikä joka jotka sen siitä minä sinä me te he minun sinun hänen olen olet ovat
		ole en et nyt vain vielä jo sitten koska miksi missä kuka tämä tuo ne nämä hyvä kiitos hei kyllä vittu saatana perkele paska huora aina kaikki mitään`,
	"ro": `și de la a în nu este cu pe un o ce să că din mai pentru care au ai am sunt ești era dar sau ca dacă când unde cine cum foarte bine doar tot
		toate eu tu el ea noi voi ei ele mie ție lui lor acum aici așa acest această mulțumesc salut bună pula muie prost idiotule dracu fi fost si sa ca`,
	"hu": `a az és hogy nem is egy van ez meg de csak már el még volt ha mint én te ő mi ti ők azt ezt vagy ki mit kell lehet minden nagyon jó most itt ott
		ahol amikor miért hogyan soha mindig semmi köszönöm szia igen kurva fasz geci buzi hülye szar lesz nincs fel le be`,
	"vi": `và của là có không được cho với một những này các trong người để đã ra khi cũng như về từ lại đi thì rất nhưng tôi bạn anh em chị nó mình ở đó
		gì nào sao vì nếu làm biết nói đến đang sẽ chỉ còn hay thế mày tao địt đụ lồn cặc ngu đồ chó cảm ơn xin chào`,
	"tl": `ang ng sa na mga at ay hindi ko mo ako ikaw siya kami tayo kayo sila ito iyan iyon dito diyan doon may wala kung para naman lang din rin pa
		ba po ano sino bakit paano kasi pero dahil nga yung gusto mahal salamat putang ina gago tanga bobo tarantado ka namin natin`,
}

// wordLanguages says of each frequent word in which languages it is one.
var wordLanguages = func() map[string][]uint8 {
	table := map[string][]uint8{}
	for tag, name := range latinTags {
		seen := map[string]bool{}
		for word := range strings.FieldsSeq(frequentWords[name]) {
			if !seen[word] {
				seen[word] = true
				table[word] = append(table[word], uint8(tag))
			}
		}
	}
	return table
}()

// marked are the letters, beside the plain Latin ones, that the languages are written with. Borrowed words bring é and ö
// into English too.
var marked = map[string]string{
	"es": "áéíóúñ", "fr": "éèêëàâçîïôùûœ", "de": "äöüß", "pt": "ãõçáéíóúâêô", "it": "àèéìòù", "nl": "ëïé", "sv": "åäö", "pl": "ąćęłńóśźż",
	"cs": "áčďéěíňóřšťúůýž", "tr": "çğıöşü", "da": "æøå", "no": "æøå", "fi": "äö", "ro": "ăâîșțşţ", "hu": "áéíóöőúüű",
	"vi": "ăâđêôơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
}

// markLanguages says of each such letter in which languages it is one.
var markLanguages = func() map[rune][]uint8 {
	table := map[rune][]uint8{}
	for tag, name := range latinTags {
		for _, letter := range marked[name] {
			table[letter] = append(table[letter], uint8(tag))
		}
	}
	return table
}()
