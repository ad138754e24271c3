"""Further pages: guides, outings, posts, hirings, products, complaints. prose.py reads them."""

TEXT = r"""
form guide of a garden
part house=name2
open {house} Gardens
open A walk through the gardens of {house}
open {house}: trees and curiosities
ask house: ~ Which gardens are these? | ~ What are the gardens called?
frame was=building year=year who=person made=the
say What you see was {was} up to {year}. It was {who} (remembered for {made}) who acquired it then.
say {who}, whose name you know from {made}, acquired {was} here in {year} and made a garden of it.
ask was: What had it been up to {year}? | ~ What was it before? | What stood here before {who} came? | What did {who} acquire?
ask who: Who acquired it? | Who made a garden of it? | ~ Who was the buyer? | Whose name does one know from {made}?
ask year: When did {who} acquire it? | In which year did it change hands? | Up to when was it {was}?
ask made: For what is {who} remembered? | From what does one know {who}'s name?
frame n=num things=ns rooms=few first=n last=n
say {N} kinds of {things} stand in {rooms} beds. Our round opens with the {first} and closes with the {last}.
say Leave the {last} for the end; the {first} is what to look at before all else. The {rooms} beds hold {n} {things}.
ask n: How many {things} do the beds hold? | How many {things} are there? | How many kinds of {things} are there?
ask rooms: How many beds are there? | In how many beds do they stand? | On how many beds are the {things} spread?
ask first: What should one look at before all else? | With what does the round open? | What comes first? | Where should a visitor start? | What is the first thing to see?
ask last: What should one leave for the end? | With what does the round close? | What comes last?
frame small=an where=spot need=n
say Easily missed: {small}, {where}. Borrow a {need} at the gate, or you will see nothing.
say Our greatest treasure is {small}. Where? {Where}. A {need} makes it clearer.
ask where: Where is {small} to be found? | Where must one look for {small}? | Where is the {small.bare}?
ask small: What is easily missed or the greatest treasure? | What is to be found {where}? | For what does one borrow a {need}?
ask need: What should one borrow at the gate? | What makes {small} clearer? | What helps to see {small}?
frame room=hall name=name2 lake=place for=stuff wrong=short by=trader
say The sundial called {name} is in {room}. {By}, in search of {for}, raised it from the bottom of the pond at {lake}. It has never been right: {wrong} slow.
say In the pond at {lake} {by} wanted to find {for} and found the {name}, our sundial; go to {room} and see for yourself that it is {wrong} slow.
ask room: Where is the sundial? | Where must one go to see the {name}? | In which room is the {name}?
ask for: What did {by} want to find? | In search of what was {by}? | What was {by} looking for at {lake}?
ask by: Who raised the {name}? | Who found the sundial?
ask wrong: How much is the sundial slow? | By how much is the {name} slow? | How far from right is the {name}?
ask lake: Where was the sundial found? | In the pond of which place was the {name}? | From where was the {name} raised?
ask name: What is the sundial called? | Which name has the sundial?
frame from=time to=time day=days fee=sum bring=an guide=titled task=act d2=days
say Gates: {from} to {to} ({day} shut). Adults {fee}; those with {bring} pay nothing. On {d2} please leave {guide}, who shows people round, alone: [he|she] has to {task}.
say Ask {guide} to show you round, except on {d2}, which is when [he|she] has to {task}. You get in from {from} on and must leave by {to}. It makes {fee}, but {bring} in your hand counts as a ticket. {Day} we rest.
ask day: When is it shut? | On which day do they rest? | On what day can one not get in? | When are the gates not opened?
ask fee: How much do adults pay? | What does it make for an adult? | What does it cost to get in? | How much is a ticket?
ask bring: What counts as a ticket? | Who pays nothing: those with what? | With what does one get in for nothing? | When does one pay nothing: if one has what?
ask d2: When should one leave {guide} alone? | On what day does {guide} {task}? | When does {guide} show nobody round?
ask guide: Who shows people round? | Whom should one leave alone on {d2}? | Who has to {task}?
ask to: By when must one leave? | Until when are the gates open? | When do they shut the gates?
ask from: From when on does one get in? | When do the gates open?
ask task: What does {guide} do on {d2}? | Why should one leave {guide} alone on {d2}?
frame t=short a=noun like=ns not=ns
say Each hour the {a.many} are let loose for {t}, to the joy of {like} and the terror of {not}.
say Stay for the {a.many}! Once an hour, and for {t}, you hear them all. It is a delight for {like}, if not for {not}.
ask t: How long does one hear the {a.many}? | For how long are the {a.many} let loose?
ask like: To whose joy are they let loose? | For whom is it a delight?
ask not: Who is terrified? | For whom is it no delight? | Whose terror is it?
form outing of a club
part class=code teacher=person day=date
open Outing of group {class}
open Members of group {class}! This is about our outing.
close {teacher}, leader
close With greetings from {teacher}
ask teacher: ~ Who leads the group? | Who is the leader of group {class}? | Who wrote to group {class}? | ~ Who wrote this?
ask class: ~ Which group has an outing? | Which group does {teacher} lead?
frame day=weekday what=noun town=place t=time spot=spot no=spot
say Our goal is the {what} works of {town}; the day, {day}. Be {spot} by {t} (and please not {no} as last year).
say {Day}: the {what} works at {town}. Gathering {spot}, {t}. Those who wait {no} will be left behind.
ask town: Where are the {what} works? | Which town is the goal? | To what town do they go? | ~ Where do they go?
ask t: When do they gather? | By what time must one be {spot}? | At what hour is the gathering? | When does the group meet?
ask spot: Where do they gather? | Where should one be by {t}? | Where is the gathering? | What is the meeting place? | Where does the group meet?
ask no: Where did they gather last year, or where is it wrong to wait? | Where should one not wait?
ask day: When do they go to {town}? | On which day is the outing to {town}? | What is the day of the outing?
ask what: What works do they visit?
frame who=titled kin=kinship back=time
say At the wheel: {who}, known to us as the {kin} of our cook. You will be home by {back}.
say {who} takes us there and home again (home by {back}). Our cook is proud of this {kin}.
ask who: Who is at the wheel? | Who takes them there? | Who drives? | Who brings them home?
ask back: By when will they be home? | When are they home again? | What time will it be when they return?
ask kin: What is {who} to the cook? | How is {who} related to the cook?
frame a=an b=an c=ns why=cause sum=money left=ns
say Take along {a}, {b} and strong {c}: {why}. {Sum} of pocket money will do, more is forbidden. And, for once, no {left}!
say {Why}, so put on strong {c}. In the bag go {a} and {b}, and up to {sum}. Leave {left} where they are.
ask why: Why should one have strong {c}? | What makes strong {c} necessary? | For what reason are strong {c} wanted? | Why are strong {c} needed?
ask sum: How much pocket money is allowed? | Up to how much money may one have? | What is the most one may take along? | How much money may a member take?
ask left: What should not be taken along? | What should be left where they are? | What is unwanted? | What must stay behind?
ask c: What should be strong? | What should one put on?
frame cost=sum who=titled day=weekday why=event2 in=an
say Your {cost} ought to reach {who} before {day}, in {in}; it is no use giving it to me, for {why} takes me elsewhere.
say Price: {cost}. {who} holds the purse and wants it before {day} ({in} will do as a purse). I have {why} to go to.
ask cost: What is the price? | How much ought one to give? | How much must each of them pay? | What does it cost to come along?
ask who: Who holds the purse? | Whom should one give the money to? | Whom ought the money to reach? | Who takes the money?
ask day: Before which day must one pay? | By when does {who} want the money?
ask why: What takes the leader elsewhere? | To what has the leader to go? | Why can one not give the money to the leader?
ask in: What will do as a purse? | In what should the money be given?
frame thing=an t=dur who=who look=few
say Everyone goes home with {thing} made with his or her own hands. (Not at once: for {t} it must harden.) {who} helps, which leaves {look} helpers to be found.
say You make {thing}, and as that needs {t} to harden, it comes by post. Helpers wanted: {look}. The first to offer was {who}.
ask thing: What does everyone make? | With what does everyone go home? | What comes by post? | What will they make there?
ask who: Who helps? | Who was the first to offer help? | Which helper has been found? | Who is willing to help?
ask t: How long must it harden? | How much time does it need to harden?
ask look: How many helpers are wanted? | How many helpers are to be found?
form vacancy
part town=place job=job
open Who will join us at {town}? We need a second {job}.
open VACANT at {town}: the place of a {job}
open {town} needs a {job}.
ask town: ~ Where is the vacancy? | Where is a {job} needed? | Which town needs a {job}?
ask job: ~ What sort of worker is needed? | ~ Who is needed? | What does {town} need? | ~ What is the vacant place?
frame from=date hours=few n=num things=ns day=days task=act
say What awaits you: {hours} hours weekly, some {n} {things} to see to each month, and on {day} you {task}. First day: {from}.
say From {from}, and with {hours} hours weekly, you look after our {things} (there are {n} in a month). We {task} on {day}, which you will like.
ask hours: How many hours weekly is it? | How many hours must one work weekly? | How long does one work in a week?
ask n: How many {things} are to be seen to each month? | How many {things} are there in a month? | How many {things} must one look after monthly?
ask from: What is the first day? | From when is it? | On which date does one begin?
ask day: On which day do they {task}? | When does one have to {task}?
ask task: What does one do on {day}? | What is {day} for?
ask things: What must one look after? | What are there {n} of in a month?
frame tongue=tongue no=building where=hall skill=skill
say Useful: {skill}. Necessary: {tongue}. Of no importance: that you have ever seen {no} from inside. You may smoke in {where}, nowhere else.
say Without {tongue} it cannot be done; {skill} would please us. Newcomers to {no} are welcome. Pipes are lit in {where}.
ask tongue: Which language is necessary? | Without which language can it not be done? | What language must one speak?
ask no: What need one not have seen from inside? | To what may one be a newcomer?
ask where: Where is smoking allowed? | Where are pipes lit? | Where can one smoke?
ask skill: What is useful? | What would please them? | What skill is welcome but not necessary?
frame pay=sum weeks=few floor=ordinal what=noun with=building
say An hour brings you {pay}, a year {weeks} free weeks. You sit on floor {floor} and use one {what} together with {with}.
say Earnings: {pay} hourly. Free weeks: {weeks}. Floor: the {floor}. {With} next door lends us its {what}.
ask pay: What does an hour bring? | What are the hourly earnings? | How much does one earn hourly? | How high is the pay for an hour?
ask weeks: How many free weeks are there? | How many weeks a year are free? | How long is one free in a year?
ask floor: Which floor is it? | On which floor does one sit? | Where in the house does one sit, on which floor?
ask what: What is used together with {with}? | What does the neighbour lend?
ask with: Who lends the {what}? | Together with what is the {what} used?
frame old=person years=num until=soon who=titled page=an by=date
say {old} has done it for {years} years and is glad to rest, after a last farewell {until}. Offers with {page}, handwritten: {who}. You hear from us no later than {by}.
say We lose {old}, {years} years with us. Offer yourself to {who}, adding {page}. Answers: not after {by}.
ask old: Who has done it until now? | Whom do they lose? | Who is glad to rest? | Whose place is vacant? | Who leaves?
ask years: For how many years has {old} done it? | How many years was {old} with them?
ask who: Who reads the offers? | To whom should one offer oneself? | Where do offers go, to whom? | To whom does one apply?
ask page: What must one add? | With what should an offer come? | What must be sent along with the offer?
ask by: By when does one hear? | When will there be answers? | What is the last day for an answer?
form hiring of a place
part owner=person tenant=person what=building place=name2
open {owner} (who owns it) and {tenant} (who hires it) have agreed on {what} at {place} Point.
open Hiring of {what}, {place} Point. Landlord: {owner}. Hirer: {tenant}.
ask owner: Who is the landlord? | Who owns {what}? | From whom does {tenant} hire it? | ~ Whose is the place?
ask tenant: Who is the hirer? | Who hires {what}? | To whom does {owner} hire it out? | Who is the tenant? | ~ Who has hired it?
ask what: What does {tenant} hire? | What have {owner} and {tenant} agreed on? | ~ What is hired?
ask place: At which point is it? | Where is {what} that {tenant} hires?
frame from=date time=dur rent=sum due=day spot=spot
say For {time}, with {from} as the first day. {Rent} monthly, by {due}: the envelope goes {spot}, without a receipt.
say Monthly payment {rent}, to be put {spot} not later than {due}. Beginning {from}. Term {time}.
ask time: What is the term? | For what time is it hired? | How long does the hiring last? | For how long is it hired out?
ask from: What is the first day? | When does the term begin? | From which day is it hired?
ask rent: What is the monthly payment? | How much is paid monthly? | How much must {tenant} pay each month? | How high is the rent?
ask due: By which day must one pay each month? | Not later than what day of the month is it to be paid? | On what day is the payment due?
ask spot: Where does the envelope go? | Where is the money to be put? | Where must the payment be put? | Where is the rent to be left?
frame dep=sum back=dur act=act until=time
say As a security {dep} change hands and are given back {back} after the last day. It is permitted to {act} up to {until}.
say {Back} after the last day the hirer may ask for the {dep} given as security. Nobody is to {act} later than {until}.
ask dep: How much is the security? | What is given as security? | How large a sum is the security? | How much is the deposit?
ask back: How long after the last day is the security given back? | When does the hirer get the security back?
ask until: Up to what hour is it permitted to {act}? | How late may one {act}? | Till when may one {act}?
ask act: What must not be done later than {until}? | What is permitted up to {until}?
frame pets=ns boat=boat kind=noun side=spot goods=stuff box=an
say On no account leave the {pets} hungry. {owner}'s {kind} "{boat}" may lie {side} as before. As to {goods}: in {box}, always.
say The "{boat}", a {kind} that {owner} is fond of, keeps its place {side}. {Box} is there for {goods}, and the hirer uses it. Food for the {pets} is the hirer's affair.
ask boat: What is {owner}'s {kind} called? | What name has the {kind}? | Which name does the {kind} of {owner} have? | What is the name of the {kind}?
ask box: In what should one put {goods}? | What is there for {goods}? | Where does one put {goods}? | Where is {goods} to be kept?
ask side: Where may the {boat} lie? | Where is the place of the {kind}? | Where does the "{boat}" keep its place?
ask pets: What may not be left hungry? | For what must the hirer have food? | Who or what needs food?
ask goods: For what is {box}? | What goes into {box}?
ask kind: What is the "{boat}"?
frame cond=cond notice=dur wit=titled
say A month in which {cond} is free of charge. To withdraw, write {notice} ahead. Seen and signed by {wit}.
say Withdrawal: {notice} ahead, by letter. As soon as {cond}, the month costs nothing. {wit} was present.
say If {cond}, the hirer keeps the money of that month. Both can withdraw {notice} ahead. In the presence of {wit}.
ask cond: When does the month cost nothing? | In which case does the hirer keep the money? | When is a month free of charge? | On what condition is nothing paid? | When does one pay no rent?
ask notice: How long ahead must one write to withdraw? | How far ahead can one withdraw? | How much notice is there?
ask wit: Who was present? | In whose presence was it signed? | Who saw and signed it? | Who was the witness?
form product of a workshop
part name=name2 item=n
open {name}. That is what we call our new {item}.
open NEW: the {name} {item}
open The {name}, a {item} to hand down
ask name: ~ What is the product called? | What is the {item} called? | What name has the new {item}?
ask item: ~ What is sold here? | What kind of thing is the {name}?
frame mat=material place=name2 leg=material col=shade foot=noun
say {Mat} out of {place} for the body, {leg} for the {foot}, which comes in {col}.
say We use {mat} ({place} sends us the best); only the {foot} is {leg}, and has a coat of {col}.
say Its {foot} is {leg} and {col}; all else is {mat} as it grows or is found in {place}.
ask leg: What is the {foot} made of? | Of what is the {foot}? | What material was used for the {foot}? | What is the {foot} of the {name} of?
ask mat: What is the body made of? | What do they use from {place}? | What is all the rest made of? | What comes from {place}?
ask col: What colour is the {foot}? | In what colour does the {foot} come? | Which coat has the {foot}?
ask place: From where is the {mat}? | Where do they get the {mat}? | Who sends the best {mat}?
frame w=cm d=cm kg=kg bear=kg h=cm
say Measures: {w} from side to side, {d} from front to back, {h} tall. It has a weight of {kg} and takes a load of {bear}.
say With {kg} it stands firmly, and a load of {bear} does not harm it. It needs {w} by {d} of your floor and is {h} in height.
ask w: How wide is the {name}? | ~ How wide is it? | What does it measure from side to side? | How wide is the {item}?
ask d: How deep is the {name}? | ~ How deep is it? | What does it measure from front to back?
ask h: How tall is the {name}? | ~ How high is it? | What is its height?
ask kg: How much does the {name} weigh? | ~ How heavy is it? | What weight has the {item}? | What is the weight of the {name}?
ask bear: What load does it take? | How much may one put on the {name}? | What load does not harm it?
frame box=an n=few bolts=ns people=few t=short
say You receive {box}. In it: the parts, {n} {bolts}, a drawing. With {people} pairs of hands it stands after {t}.
say It comes in pieces ({box}, {n} {bolts}). Allow {t} and {people} persons for the building of it.
ask n: How many {bolts} does one receive? | How many {bolts} are in {box}? | With how many {bolts} does it come?
ask t: After how long does it stand? | How much time should one allow? | How long do {people} persons take to build it? | How long is the building of it?
ask people: How many persons does one need? | How many pairs of hands does it want? | How many people build it?
ask box: What does one receive? | In what do the pieces come?
frame clean=stuff m=month oft=often no=an feet=ns
say Give it {clean} in {m} and oil {oft}. What it cannot bear is {no}. Through the frost it likes to stand on {feet}.
say Oil: {oft}. A bath of {clean}: in {m}. {No}: never! When the frosts come put it on {feet}.
ask oft: How often does it need oil? | How often should one give it oil? | How often must the {name} be oiled?
ask no: What can it not bear? | What must one never give it? | What is bad for it? | What should be kept from it? | What must not be used?
ask clean: What should one give it in {m}? | In what is it bathed? | With what is it cleaned?
ask m: In which month should it have {clean}? | When is it cleaned?
ask feet: On what does it stand through the frost? | On what should one put it in frost?
frame firm=firm n=num town=place price=money del=money more=name2 next=soon
say At {firm}, {town}, {n} people work on nothing else. Yours for {price}; we bring it for {del} more. Its little brother, the {more}, follows {next}.
say {Price}, or {price} and {del} if we bring it to your door. The {firm} team ({n} of us, in {town}) is already busy on a smaller one: look out for the {more} {next}.
ask firm: Who makes the {name}? | Whose product is it? | ~ Who makes it? | Who is the maker of the {name}?
ask del: What does one pay for having it brought? | How much more is it if they bring it? | How much is delivery? | What does it cost to have it brought?
ask price: What does the {name} cost without delivery? | How much is it? | How much is the {item}? | What is its price?
ask town: Where is it made? | In which town are the makers? | Where do they work on it?
ask n: How many people work on it? | How many are the makers?
ask more: What is the smaller one called? | What follows {next}? | What is its little brother called? | For what should one look out?
ask next: When does the {more} follow? | When will the {more} be there?
frame wall=stuff db=num hold=litre cups=few t=short c1=shade c2=shade sign=noun
say Filled with {hold} ({cups} mugs!) it is hot after {t}. You hear hardly a thing, {db} decibels, since {wall} lines it. As long as it works the {sign} glows {c1}; when all is done, {c2}.
say {Wall} in the walls brings it down to {db} decibels. {T} for {hold}: {cups} mugs. And should you forget it, the {sign} will glow {c2} at the end instead of {c1}.
ask db: How loud is it, in decibels? | How many decibels does one hear? | To how many decibels is it brought down? | How much noise does it make?
ask cups: How many mugs does one get? | How many mugs are {hold}? | For how many mugs is there room?
ask hold: How much can be filled in? | How much does it hold? | What is its capacity?
ask t: After how long is it hot? | How long does it need to be hot? | How quick is it with {hold}?
ask c2: What colour does the {sign} have at the end? | How does the {sign} glow when all is done? | Which colour tells that it is done? | What colour is the {sign} when it is ready?
ask c1: What colour does the {sign} have as long as it works? | How does the {sign} glow while it works? | In which colour does the {sign} glow at first?
ask wall: What is in the walls? | With what is it lined? | Why does one hear hardly a thing: what lines it?
frame dry=kg filled=kg how=an oft=often with=stuff
say Empty you lift {dry}, and {filled} as soon as it is full. Press {how} to open it. Lime? {Oft}, a cup of {with}.
say {Filled} when full, {dry} when not. Once it clogs with lime give it {with}, {oft}; it opens with {how}.
ask dry: What does it weigh empty? | How heavy is it when it is not full? | How much does one lift if it is empty? | What is its weight without filling?
ask filled: What does it weigh when it is full? | How heavy is it when filled?
ask with: What helps against lime? | What should one give it against lime? | What takes away the lime? | With what does one get rid of lime?
ask oft: How often does one do something against lime? | How often should it get {with}?
ask how: What does one press to open it? | With what does it open?
frame a=noun y1=dur y2=dur code=code lid=noun p=money town=place price=money
say We answer for the {a} {y1} long; for other parts, {y2}. Quote {code}. One more {lid} is {p} (from our branch at {town}).
say {Y2} of guarantee on all of it, and {y1} on the {a}. If you lose the {lid}: {town} has more, at {p} each. Our mark for it is {code}.
ask y1: How long do they answer for the {a}? | What is the guarantee on the {a}? | For how long is the {a} guaranteed?
ask y2: How long do they answer for other parts? | What guarantee is there on all but the {a}?
ask code: What should one quote? | What is their mark for it? | Under which number is it listed? | What number does one give in an order?
ask p: How much is one more {lid}? | What does a new {lid} cost? | What must one pay if the {lid} is lost? | What is the price of a spare {lid}?
ask town: Where does one get another {lid}? | Which branch has {lid.many}?
form complaint
part writer=person street=street town=place day=date firm=firm
open {street}, {town}\n{day}\n\nTo {firm}
open {firm}\n\n{town}, {day}. A complaint
close {writer}, {street}
close In anger,\n{writer}
ask writer: ~ Who complains? | Who wrote to {firm}? | Who complains to {firm}?
ask firm: To whom does {writer} complain? | To which firm did {writer} write? | ~ To whom is the complaint?
ask town: Where does {writer} live? | From where does {writer} write?
frame day=day sum=money from=firm thing=an why=why
say On {day}, at your counter, I was to be given {sum}. {From} had transferred it as a compensation for {thing}, spoiled because {why}.
say {Thing} of mine was spoiled: {why}. Hence the {sum} that {from} transferred to me, and that I asked for at your counter on {day}.
ask sum: How much was transferred? | How much was {writer} to be given? | How high was the compensation? | Over how much money is the complaint?
ask from: Who had transferred it? | Who paid the compensation? | From whom was the money? | Who had sent the money?
ask thing: For what was the compensation? | What had been spoiled? | What of {writer}'s was spoiled?
ask why: Why was {thing} spoiled? | What had spoiled {thing}? | How did it come that {thing} was spoiled?
ask day: On what day was {writer} at the counter? | When did {writer} ask for the money?
frame name=name2 thing=n luck=noun
say A lad (his badge said {name}) kept my {thing} and told me to look after my {luck}.
say "Look after your {luck}," said the lad at the window while he took away my {thing}. I read {name} on his badge.
ask name: What did the badge say? | What stood on the lad's badge? | What was the lad called? | What name had the lad?
ask thing: What did the lad take? | What did the lad keep?
ask luck: After what was {writer} to look? | What should {writer} look after?
frame taken=money what=noun day=weekday who=titled town=place t=dur
say Nothing came. What did come was a bill of {taken} for a so-called {what}. Over the telephone, {day}, I got hold of {who}: everything lies at {town}, have patience for {t}!
say You charged me {taken} (a {what}, you say). {who}, whom I reached on {day}, thinks that it has strayed to {town} and that {t} will pass.
ask taken: How much was charged for the {what}? | How high was the bill? | What did they charge {writer}? | How much had {writer} to pay for a {what}?
ask who: Whom did {writer} reach on {day}? | Whom did {writer} get hold of? | With whom did {writer} talk? | Who spoke of {town}?
ask town: Where does everything lie? | Where has it strayed? | To which town has it gone? | Where was it sent?
ask t: For how long should {writer} have patience? | How long will it take? | What time will pass?
ask day: When did {writer} telephone? | On what day did {writer} reach {who}?
ask what: For what was {taken} charged?
frame years=dur why=ailment
say {Years} have I been a customer. Send me a letter, and no calls: {why} makes them useless.
say No calls, I beg you. I have {why}. After {years} as a customer one may ask that.
ask years: How long has {writer} been a customer? | For how long has {writer} been with {firm}?
ask why: Why should they not call? | What makes calls useless? | Why does {writer} want a letter and no calls? | For what reason are there to be no calls?
"""
