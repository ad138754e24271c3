"""English words of which documents are made anew (rewording.py): common nouns, rarer ones, adjectives."""

NOUNS = """think face friend world wind place door heart look love voice disc felt give char care power wall death fall earth
till fire person hope doubt play list ground sleep hold fear dream idea mount sight wish sign leave object form
table window talk means road sense draw watch manner meet hair move foot show rose gold effect fort family respect
answer pain floor spirit rock laugh hill self horse plan build tear moon mouth fright space import exam garden
letter change affect paper story danger smile cast comfort delight trouble fail bird mine chair street character
walk heaven regard comes fight force breath school burn doctor glass command shout king snow attempt tone book
remark accord beauty food stone port company music purpose line hall desire escape success prison crowd strength
news effort knowledge court yell result report cause bear save society mark piece class peace river neck opinion
guess shore youth mill companion path note boat touch surprise forest star sail spring stop dinner cloud tree reach
sand spot shoulder harm stir notice trust journey service wait treat search demand ball catch bell pocket post habit
island roof hide author faith host church terror guard reply priest iron duty cheer race speech board temper health
seat beast noise letters cover system study song desert kill lord passage bread horror mess fashion gate office
origin hunt grass history test surf nobody spread circumstances conduct edge wine dust wear concern scene stream
grace language nose burst memory bank doll flight gloom summer rise skin fault village design sake rain winter
clothes kitchen heat haven comb method sigh battle dwell hate spite valley sword difficulty maid loss process throw
supper shape fortune pride drift vent smoke tongue cell bore courage marriage tent organ justice threat servant luck
throat flesh project brain attack hurry blow crime judge breakfast candle fate chamber property virtue storm farm
bull drive drove police advantage ring rail thrust depth ghost stick meat shop charge weather fish laughter train
grad offer understanding parent wealth control instinct chest artist poet finger surface hero band promise couple
gift mistake palace hint whisper press sorrow soldier mystery vessel advice track value taste cord stuff smell
relief affair birth flame travel pair gather spark claim hunger shoot captain prisoner stage shame contempt mistress
rule group wheel arrest energy stead despair labor bend share support midst tail tale yield coast progress cult
pause jury flower dawn type sympathy anger carriage regret circle task store visible coat example accident drop
approach princess chat cave haunt bridge meal grin extent machine pick pistol lamp teacher trail shade intellect
freedom pardon yard risk deck silk raise produce join cabin bill baby ease range discovery address landing planet
kingdom struggle theory lake demon liter trade strike cook grief suit plate club wing alarm print arrival victim
shock warning needs favor plant blame event tort castle fold pack lift glory hole excuse practice tower pipe sell
chin ruin liberty atmosphere wound match beating jump appeal swim trip gaze mood patter bearing frame remains region
repeat ladder thirst beard beach rage safety thunder sport canoe grasp belief officer problem barn toss pill lack
season ride fruit ages image clam skill cheek refuse anxiety exercise lock echo flood throne craft wisdom cottage
aspect leap millions sacrifice tide pace whist whip knife metal sunshine temple mercy pursuit breeze gain grate
guide check voyage wire cliff desk request hotel increase coffee photograph soot sheet fever feather compass impress
bottle message cart halt reward score contract minister queen species hunting shelter ocean stair clock blast insult
bedroom center straw engine prayer prospect style library wake page pier rush scorn slop honor principles injustice
mankind poison waist trace protest groan lane rout agony century ceiling avail suspicion religion tang thread joke
load corn triumph error depths horizon malt fill fare card shake sunlight midnight principle crew lunch twilight
recall series steel delay leaf bishop paint leather universe crown detail footstep stamp staff brow contact teaching
fury warmth disease pool excess brick march moonlight elephant sailor physic genius credit wave butter vault rope
chain consent farmer market weapon sheep knee worry dish glow term lawyer breathing misery praise philosophy cake
nurse shirt knock handle doorway sweep scream curtain bullet glimpse learning chimney nonsense stare spear rifle
prophet finish mischief witch visitor cigaret sway jail branch strain slip text guest expense soup reader monster
driver product disgust widow phrase scheme sergeant toil throng couch counsel cellar newspaper elbow beer deer noon
peril peep scale coal marvel haste glasses frost contrast autumn article pile gown thrill daylight goods chap
distress household recess brethren trap profit provisions esteem summit inquiry pattern source buck nest rear ramp
frown alley wheat drag neighbor screen gallop abyss flow chuck belt skirt charm limit growth embrace coward title
sofa threshold tavern sledge pond puff thumb yawn union boast sunset lesson decor burden merit secretary construct
ruins altar disgrace railway doctrine leopard bath tomb insect grain impulse lightning member climb balloon murmur
debt gathering faculty filth clerk policeman anchor fist soil roar longing remorse writ quarrel dwelling poetry
hospital shooting fame beam button kitten shield roll string scent slope wrath happening coroner veil variety palm
clothing citizen enthusiasm lantern encounter angel bloom chase carpet benefit spectacle architect responsible
reproach corridor machinery zeal tick duke heap whim sugar agent plot dislike block brand chambers wrist coach
income cavern grounds fairy transport saddle murderer gleam warrior industry linen appetite powder stomach sink oath
cough pine pitch nail stove shell disorder brass offering owner certainty volume guardian majesty grip bourgeoisie
globe district basket cigarette landscape revel tram tramp poverty folly conflict hearth bush infant collar anguish
estate dressing""".split()

RARE = """laptop tractor camera printer fridge freezer toaster kettle zip sweater trainer sandal scooter skateboard rucksack
helmet battery plug socket screwdriver spanner mop bucket vacuum dishwasher microwave duvet pillow blanket mattress
wardrobe bookshelf calendar diary stapler folder envelope crayon marker eraser ruler backpack thermos sandwich
pancake noodle pizza pasta salad yoghurt muffin biscuit cereal jam lemon avocado broccoli spinach pepper aubergine
courgette banana pineapple mango melon kiwi cherry raspberry blueberry tomato potato onion garlic mushroom hamster
budgie parakeet gecko terrapin ladybird beetle moth wasp hornet snail slug worm otter hedgehog badger heron
kingfisher woodpecker starling blackbird sparrow robin finch magpie swift martin tit lark thrush nightingale quail
customer fistful subteen redcoat wristband liege remover knack charcoal camisole bong returnee maxim borer agitator
meltdown signet quiche celibate minstrel puppeteer woodpile gizzard medicine finder pinnacle carpel beginner
switcher arboretum streetcar tarp gurney watcher canteen embezzler grail septum tortilla platinum kickback musk
sapphire terabyte glassful fireball washer lifer mufti crevice womb thigh wrestler manhole teaspoon fishnet rocker
blower maharishi eyelet soybean funeral enlarger cicatrice satyr squid playpen forklift mannequin epoch meteoroid
spoiler hearer pentagon birthrate grower pollutant outlook piccolo gerund kidnaper hernia hyperbola bender motel
coconut fluke gaslight locker duster victor dreamer haystack skeleton fondant frostbite orifice gram theodore
placebo toucan racketeer egghead lipstick reverie parable binder buttercup toilet saucepan analysor synod pushover
specimen gene piazza squab slime naiad poster skeptic electron colonnade purser darkroom mayor clincher neurone
tentacle decathlon zephyr shrub totem roaster paradise sorcerer ballroom naysayer firework caveat twister loader
laburnum trait megaphone primer latecomer airplane quohaug nighthawk quitter sidewalk packer viper employer herb
esthete verse peso coaster melanoma ultimatum divisor mason slob dungeon trainee fang predictor tycoon ounce cleaver
sirup filmstrip downbeat stepson drainage concerto chilblain tuxedo tonne commodore phantom urinal surfer mannikin
playroom zygote borough islander mandrake goon hummock vice foreword cockade shotgun palette refuge oxymoron epitaph
idiogram submitter fiber geometer hearse neckline mumbler clef cheese crozier giraffe waterway mitten warthog meteor
czar dossier informer streamer crib panda rasher statute rapier reaper hooker vitamine triangle inspector phosphate
baseball artifice drugstore recluse foresight cranium steppe flue panderer honeybee bannister octet fireside
complaint diorama gale buffoon slag deicer commissar triad monger diva hostel cuisine carapace byte curd caller
pilgrim sandstorm tympanum reviewer whisker edger abstainer breakup jumper duckling assailant momma sycamore
microchip operand chiseler viburnum photon akita rink metaphor giblet valve sackful groveller adjective mutt gondola
diner pinto chalet plasterer manor triplet hangover landfall chapel postcode wren moray germ farewell salmon stye
idyll peahen welder taker raisin lung bogey runway sprinkler chevron keynote requisite synagogue corpuscle lupin
talisman drawer giveaway outfitter teazel lemming contender buccaneer sprat boxcar signboard proverb animator aisle
aphid sheik adage blade stowaway silencer alligator bather muskrat lessor logarithm sharpener liner loge cretin lyre
carpenter possum bantam vaulter strainer curlew doorbell caliphate linkage subscript adjustor speller boxer opponent
spree canyon quarto mishap pimento refresher medulla loin horde homophone flatterer occupant chaser hurricane
sidewall quagmire shovelful firestorm mongoose blazer guru battalion polygraph hallway peseta emporium martini
electrode squiggle saboteur holocaust quartet whirlpool partaker recital backrest orgasm violator orchid insulator
teat gardenia curator goal farmland prose cigar polliwog sibyl shutdown pastime wolfhound fielder shinbone planner
blamer anther eyrie charlatan cupola suitor comedown container cinnabar freeway layover courser quicksand rehearsal
dawdler dimer fryer workhorse spinster sundial armband hoagie analyzer mule margarita freebie conquest juniper fern
toothpick floater picker gelatin varmint godson lobe fulcrum upsurge plowshare stopover lifeboat gymnast deacon
jailer brier herder muskat zombi lapel dewlap mussel fungicide fiddler commander salon rampart herring biorhythm
plantain iguana kumquat fife ruffian magnate neutron carrel cleavage quasar plum guilder copier context appointee
dyestuff mastodon workload microcosm colloid marauder bowstring praline angler slowdown waxwing reporter dredger
abdomen confessor drumstick oyster siesta jalousie pederast surgeon feedback schnauzer parameter token opera
outburst voter millet sierra speedup rune airdrop shark builder logbook ventricle grassland tsunami dynamo earthworm
hula manatee bushing oracle actor gazetteer missive berm pathway dorsale vinegar staircase rump neophyte slayer
affidavit sceptic refugee caboose closeout cataclysm thrall villa cinnamon joker camellia misnomer armagnac
forefront beacon respite wildfire cookbook teenager messenger turbine whiff meatball alpaca gable regulator coupon
nephew stroller voyager shale cubicle loaner jujube bushel gremlin dorm mite republic pigpen hairpiece marlin latte
mollusc mustang dugout leotard panegyric buffalo entourage petticoat teacup sandstone porter receptor furnace
chieftain nimrod advisor restroom villain hick spectator solitaire stretcher lifeguard carbon brownie slicer tempter
platelet donut firehouse hyaena vandal hussar abbey egret fibre guild sanctum comrade lancer overdraft chimera
menagerie resin lipid snorer barbe learner elector scarab lawn junkie realm songbird hotbed guilt duffer swimmer
ashtray chiller isle analog resolver inductee avenger eaglet acolyte carver gryphon buyer dollar canto raider
landowner prolog videodisk guinea numeral hobnail marigold artefact insulin moron director brigand killer dahlia
jigsaw coquette earplug thumbtack tuft earner lancet bulkhead glider strudel stein stammerer tempest grackle filler
toddler airspace sedan taillight petunia lymphoma backwater smoker scalpel crinoline football endive boater acre
casket sinker poacher plunger bassoon tapir palomino antidote feller mustache requital forester pavilion cormorant
muscat quintet gadget anorak sheykh trader sextant stiletto freighter saki earl resister flint aircraft sealant
committee liftoff skywriter temblor comma papoose shoemaker preacher toxin epaulet nave whitecap dandelion louvre
byline colon spleen retrieval overtone aardvark yeshiva wattle handout creamer toga bracelet kidnapper guarantor
sine patron swisher ideograph leakage procurer reminder reunion revue caliph paranoia protector workflow counselor
sneaker famine barroom churl mestizo berg clapper siren pastorate minion knapsack emperor proponent washroom
coverlet denizen pyre tilde newsstand minivan statistic estimator writer joiner pewee gallon burial meadow dumbbell
vellum dagger distorter vintner worksheet patriarch plunderer currie thresher charger truncheon navigator fetlock
messiah primate tactician meringue oleander clinker hurler commando legend creditor gibbon student skater ruffe
pariah blip pane bilge homonym kilo ague midpoint trimester lander flier rainstorm raceme amir platoon protester
magnifier intercom laurel sequel trembler diehard bodkin pallor hydrant yogurt courtier sapsucker caprice polymer
grove peon passenger molester explorer coxswain tofu conductor cachet monsoon rayon sprinter pedagogue pinhole pawl
ballpoint zebra pretext eggshell adjuster junta moleskin hardwood relic armrest jessamine foreigner furlong rheostat
bladder mailer fallout flatiron prank skylight stoker rooster layout fiesta unguent snakebite grafter chariot attic
motorboat corrupter gangster visor theft bittern insignia astronaut legume inhaler eardrum currant pathogene vizier
propellor coolant sourdough morsel mamma sardine zircon snowdrop studio zebu swimsuit unicycle timer mainstay
colander metro platter chickpea cannister importer pedometer banister canister heydey glutton turkey rouble begonia
pretzel wiper pipit taxicab pike cocoanut bidder traveller baobab nocturne aster subplot omelette shrike monarch
puffer racehorse vegan cataract genome teammate banshee snob easel aureole singleton handrail herbicide milkshake
burglar sparkler component collage medallion handgun wallet firearm slipper seaside arrowhead revenue regicide coma
magician toad eggbeater athlete matador capitol bystander scandal maestro allergen gibbet perimeter pimple runoff
biathlon rascal umbel yacht bouncer jackdaw swinger dint nerd classroom jawbone phoneme fountain decoder barker corm
talmud roomful bluejay toadstool raja laborer malaise pact llama cabana collector minefield revival steamboat
bayesian sepulcher stoppage pogrom softener snowplow fjord trapdoor linker exporter puck vestibule foodstuff
referral vampire calif axle widower positron caretaker compote diviner pretense locale preserver downfall gridiron
newcomer debtor skiff slowpoke poker lessee kilt thighbone superstar ellipse dinosaur splendor schooner coverage
blotter recipient cutter snapper woodcock maffia griddle tube achiever talon forebear obstacle apricot corona
dukedom storage yearbook interim ecosystem choir memento diskette roommate squinter integer sundae eunuch burrito
facade coupe ballad muskmelon topic cleat hatchet mogul holder barmaid fable destroyer auditor louver woodland
paroxysm motorway cooker chasm cockle hostage surrey languor thimble milligram margin tarpaulin plaza shilling
brokerage burg saltine muckraker mammogram miner teazle conifer capon hippie workforce epithet oxide nonpareil
lentil poorhouse vista ganymede shakedown joystick demo upheaval saucer tribute bachelor nutshell professor litre
trompe palmetto tulip savannah logger turnip cowboy nostril workweek defender bathtub combo glen purchaser whistler
nursemaid raconteur hamburger cadenza rooftop launderer octagon hectare robot numerator gangplank deflector smelter
owlet quirk dartboard morn pixie debater automaton villager leper celebrant opener software gunshot watt houseboat
eyesore polygon ermine frond pinprick adverb shortage semi esplanade seabird gill behest tremor carrier nickle
mourner carousel supplier birdcage moonscape edict savant skier mandible eagle ringlet alcove tantrum roundworm
trumpeter membrane lecher cusp hawker doorstep shallot squatter choker ether oboe toiler waterline coronet acquittal
baker copycat presentor dissenter receiver guidebook atoll puzzler woodchuck sheriff silkworm sortie dendrite
wrongdoer jargon tormenter sultanate sonata scarecrow bunting unit pathogen sachet snowfall quahaug seafood cookie
aggressor sheikh mynah dividend geranium plaid apogee slogan college dryad billboard tabloid saver nitpicker
consumer signer caraway requestor canvasser requiem willow javelin doyen bedpan cartridge simulator pullover eater
colleague baseline boor grid jabot depot mainframe grader hovel warbler hewer beak vaccine assembler chaise wriggler
autocrat ravine rationale corolla rodent warlock splicer caramel cantor mall outing piton kilowatt hydrangea bighorn
seashell checkout sinkhole mariner scalper workplace password composer avowal stoplight rood tanager offense
conveyer placket cutout device apostle waiver epicenter downswing infield denier whale teasle kneecap gatherer
kerchief beagle driveway nosebleed warder museum cowl lambskin stoner postcard keeper trucker deserter quota chemise
nannie engraver bequest spoonful blaster homeland hello monologue cataloger synagog minuend bulb apron pocketful
arsenal logician culotte province communion depositor enzyme realtor spine reviler waster moonstone yucca buildup
tiger hunk licensee revolver hooligan clipper showroom diamond distiller fortnight nugget backyard tamarind
kilometre bobolink yearling khan pilchard vole boyfriend hookup aesthete seashore thong coven disposal cyclotron
circlet shoeshine suitcase sloe scraper affray blizzard planter foyer samovar rial broom onlooker cabbage gland
confidant cucumber torturer freebee pulsar armadillo farthing condor polecat prologue hilt role umber cylinder
milieu councilor swindler afterglow cockscomb pachyderm rainbow captor bola clinic lockout aviator flyover acronym
geezer flagstone transept humbug pedlar semitone selector sweeper""".split()

ADJECTIVES = """sudden dire strange strong large able soft beautiful bright entire happy silent impossible difficult terrible weak
proper rich pleasant apparent tall curious eager fresh vast civil nice pure wonderful vain bitter important peculiar
conscious serious distant fond huge alive awful dreadful anxious distinct ordinary false excellent extraordinary
lone vague curt solemn horrible golden sufficient dangerous clever nervous thorough angry rare considerable immense
foolish bold similar prim infinite honest handsome remarkable intense holy wooden friendly comfortable enormous
powerful immediate political lonely foreign absurd mysterious earthly violent helpless useful stupid evident hungry
sacred hideous delicate cheerful careful eternal singular precious splendid unhappy grim fearful fierce remote tiny
profound wretched unusual scientific miserable delightful unexpected mental ashamed mild severe neat merry invisible
unjust overt respectable intelligent capable rude famous jealous monstrous actual polite ignorant ugly definite
frightful funny obvious occasional magnificent generous previous useless electric fantastic gloomy desperate awkward
uncertain feeble indifferent vulgar hopeless uneasy tremendous guilty cheap reasonable painful modest numerous timid
slender legal popular fortunate incredible glorious genuine restless drunken wilder exquisite strict coarse peaceful
grateful endless harsh careless sincere furious lively selfish lofty gigantic unpleasant amiable admirable impatient
brisk innumerable disagreeable vivid thoughtful recent terrific shrill hoarse fatal healthy convenient triumphant
dense suitable successful uncomfortable intolerable dumb unnatural resolute subtle""".split()
